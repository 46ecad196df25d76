import React, { ReactNode } from 'react';
import { css } from '@emotion/css';
import { GrafanaTheme2 } from '@grafana/data';
import { useStyles2 } from '@grafana/ui';

/** A row of an editor whose fields share its width evenly, none of them narrower than a name of usual length. */
export function EvenRow({ children }: { children: ReactNode }) {
  return <div className={useStyles2(getStyles)}>{children}</div>;
}

const getStyles = (theme: GrafanaTheme2) =>
  css({
    // No grid of as many columns as fit: inside plugin-ui's rows its height would be that of a single column.
    display: 'flex',
    flexWrap: 'wrap',
    width: '100%',
    gap: theme.spacing(1),
    '& > *': { flex: `1 1 ${theme.spacing(16)}`, maxWidth: theme.spacing(40) },
  });
