import { dateTime } from '@grafana/data';

import { commandLine } from './commandLine';

const query = { refId: 'A', datasource: { uid: 'gpu' }, queryType: 'evictions', filter: { users: ["o'hara", '$u'] } };

it('asks the same, without what Grafana adds', () => {
  const from = dateTime('2026-11-01T00:00:00Z');
  const to = dateTime('2026-11-02T00:00:00Z');
  expect(commandLine(query, { from, to, raw: { from, to } }).split('\n')).toEqual([
    'gpureports query --settings settings.json --from 2026-11-01T00:00:00.000Z --to 2026-11-02T00:00:00.000Z ' +
      "--query - <<'QUERY'",
    '{"queryType":"evictions","filter":{"users":["o\'hara","$u"]}}',
    'QUERY',
  ]);
});

it('asks for the newest day where no time range is known', () => {
  expect(commandLine(query)).toContain('--from now-24h --to now ');
});
