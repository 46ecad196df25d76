import React from 'react';
import { CoreApp, TimeRange } from '@grafana/data';
import { Alert, Text } from '@grafana/ui';

import { describe, drawAs } from '../query/describe';
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
}

/** Says in words what the query answers, and what keeps it from answering. */
export function QuerySummary({ query, app, inAlertRule, range, sliceMinutes, mode }: Props) {
  const errors = validate(query, mode);
  const rangeMinutes = range && range.to.diff(range.from, 'minutes', true);
  const warnings = inAlertRule ? validateForAlert(query, sliceMinutes, rangeMinutes, mode) : [];
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
