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
    display: 'grid',
    width: '100%',
    gap: theme.spacing(1),
    gridTemplateColumns: `repeat(auto-fit, minmax(${theme.spacing(24)}, 1fr))`,
  });
