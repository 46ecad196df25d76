import React from 'react';
import { CoreApp, TimeRange } from '@grafana/data';
import { Alert, Text } from '@grafana/ui';

import { queryTexts } from '../labels';
import { describe, drawAs, panelFor } from '../query/describe';
import { GpuQuery } from '../query/types';
import { validate, validateForAlert } from '../query/validation';
import { Mode } from '../settings';

interface Props {
  query: GpuQuery;
  app?: CoreApp;
  inAlertRule: boolean;
  range?: TimeRange;
  sliceMinutes: number;
  mode: Mode;
  /** The panel's type, as far as Grafana tells. */
  panel?: string;
}

/** Describes the query in words, with the reason if it cannot be answered. */
export function QuerySummary({ query, app, inAlertRule, range, sliceMinutes, mode, panel }: Props) {
  const errors = validate(query, mode);
  const rangeMinutes = range && range.to.diff(range.from, 'minutes', true);
  const warnings = inAlertRule ? validateForAlert(query, sliceMinutes, rangeMinutes, mode) : [];
  const wanted = panel === 'timeseries' && panelFor(query, mode);
  if (wanted) {
    warnings.push(queryTexts.wrongPanel(wanted));
  }
  const sentences = [describe(query, mode), app === CoreApp.PanelEditor && drawAs(query, mode)];
  return (
    <>
      <div role="status" aria-label="What the query answers">
        <Text color="secondary" variant="bodySmall">
          {sentences.filter(Boolean).join(' ')}
        </Text>
      </div>
      {errors.length > 0 && <Alert severity="error" title={errors.join(' ')} />}
      {warnings.length > 0 && <Alert severity="warning" title={warnings.join(' ')} />}
    </>
  );
}
