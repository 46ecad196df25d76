import React, { ReactNode } from 'react';
import { css } from '@emotion/css';
import { GrafanaTheme2 } from '@grafana/data';
import { IconButton, useStyles2 } from '@grafana/ui';

interface Props {
  label: string;
  /** The id of the input that the label names. */
  htmlFor: string;
  /** What the field means; shown by an icon beside the label, whose name it is. */
  tooltip?: string;
  /** The least width, in units of the theme's spacing. */
  width?: number;
  children: ReactNode;
}

/** A labeled input of an editor. The help of plugin-ui's field is an icon that takes the focus and has no name. */
export function EditorField({ label, htmlFor, tooltip, width = 0, children }: Props) {
  const styles = useStyles2(getStyles, width);
  return (
    <div className={styles.field}>
      <div className={styles.head}>
        <label htmlFor={htmlFor} className={styles.label}>
          {label}
        </label>
        {tooltip && <IconButton name="info-circle" size="sm" tooltip={tooltip} tooltipPlacement="top" />}
      </div>
      {children}
    </div>
  );
}

const getStyles = (theme: GrafanaTheme2, width: number) => ({
  field: css({ minWidth: theme.spacing(width) }),
  head: css({ display: 'flex', alignItems: 'center', gap: theme.spacing(1), marginBottom: theme.spacing(0.5) }),
  label: css({ fontSize: theme.typography.bodySmall.fontSize, fontWeight: theme.typography.fontWeightMedium }),
});
