import React from 'react';
import { Alert, Text } from '@grafana/ui';

import { describe } from '../query/describe';
import { GpuQuery } from '../query/types';
import { validate, validateForAlert } from '../query/validation';

interface Props {
  query: GpuQuery;
  inAlertRule: boolean;
}

/** Says in words what the query answers, and what keeps it from answering. */
export function QuerySummary({ query, inAlertRule }: Props) {
  const errors = validate(query);
  const warnings = inAlertRule ? validateForAlert(query) : [];
  return (
    <>
      {errors.length > 0 && <Alert severity="error" title={errors.join(' ')} />}
      {warnings.length > 0 && <Alert severity="warning" title={warnings.join(' ')} />}
      <div role="status" aria-label="What the query answers">
        <Text color="secondary" variant="bodySmall">
          {describe(query)}
        </Text>
      </div>
    </>
  );
}
