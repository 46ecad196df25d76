import { TimeRange } from '@grafana/data';

import { GpuQuery } from './types';

/** A query as the command line asks it, to be pasted into a shell; Grafana's own fields are left out. */
export function commandLine({ datasource, key, hide, refId, expression, ...query }: GpuQuery, range?: TimeRange): string {
  const from = range?.from.toISOString() ?? 'now-24h';
  const to = range?.to.toISOString() ?? 'now';
  return [
    `gpureports query --settings settings.json --from ${from} --to ${to} --query - <<'QUERY'`,
    JSON.stringify(query),
    'QUERY',
  ].join('\n');
}
