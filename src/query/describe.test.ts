import { describe as say, describeVariable, drawAs } from './describe';
import { kindsOf } from './kinds';
import { GpuQuery } from './types';

const query = (fields: Partial<GpuQuery>): GpuQuery => ({ refId: 'A', ...fields });

it('says nothing while the kind is unknown', () => {
  expect(say(query({}))).toBe('');
  expect(say(query({ queryType: 'future' }))).toBe('');
});

it.each(['pool', 'fleet'] as const)('has a sentence of its own for every view of a %s', (mode) => {
  const sentences = Object.entries(kindsOf[mode]).flatMap(([kind, { views }]) =>
    Object.keys(views).map((view) => say(query({ queryType: kind, view, groupBy: [] }), mode))
  );
  expect(new Set(sentences).size).toBe(sentences.length);
  for (const sentence of sentences) {
    expect(sentence).toMatch(/^[A-Z].*\.$/);
    expect(sentence).not.toMatch(/undefined|\w\/\w+[A-Z]/);
  }
});

it.each<[Partial<GpuQuery>, string]>([
  [{ queryType: 'allocation' }, 'Allocated % of GPUs over time, by category.'],
  [
    {
      queryType: 'allocation',
      groupBy: ['device', 'machine'],
      metrics: ['free', 'drained', 'prevented'],
      bucket: '1h',
    },
    'Free, Drained and Prevented of GPUs over time, by device and machine, in buckets of 1h. ' +
      'Primary and backfill slots are listed separately and never added.',
  ],
  [
    { queryType: 'allocation', groupBy: [], bucket: 'window' },
    'Allocated % of GPUs over time, all together, one value for the whole time range. ' +
      'Primary and backfill slots are listed separately and never added.',
  ],
  [
    {
      queryType: 'allocation',
      groupBy: ['device'],
      filter: { slots: ['Real'], projects: ['/^$/'], users: ['!/a/', 'b', '!c'] },
    },
    'Allocated % of GPUs over time, by device. Only slots Real; projects No project; users b not /a/ nor c.',
  ],
  [
    { queryType: 'userHours', filter: { categories: ['Shared'], devices: ['/\\bH200\\b/', 'NVIDIA A100'] } },
    'GPU hours and % of total of every user in the time range, by category. ' +
      'Only categories Open Capacity; devices /\\bH200\\b/ or NVIDIA A100.',
  ],
  [
    {
      queryType: 'allocation',
      timezone: 'America/Chicago',
      completeBucketsOnly: true,
      includeOldDevices: false,
      previous: true,
      limit: 5,
      metrics: ['$metric'],
    },
    '$metric of GPUs over time, by category. Hours and days are those of America/Chicago. ' +
      'Complete buckets only. Old devices are left out. At most 5.',
  ],
  [
    { queryType: 'userHours', metrics: ['gpuHours'], groupBy: [] },
    'GPU hours of all users together in the time range, all together.',
  ],
  [
    { queryType: 'utilization', view: 'idle', last: '1d' },
    'The runs whose GPUs are not computing now, longest first. For the last 1d up to now, whatever the time range.',
  ],
  [
    { queryType: 'allocation', view: 'machines', filter: { idle: true } },
    'The machines on which nothing was claimed on primary slots in the time range.',
  ],
  [
    { queryType: 'backfillAvailability', view: 'survival' },
    'Share of GPUs that can be kept for backfill longer than x hours, all together.',
  ],
  [
    { queryType: 'backfillAvailability', view: 'survival', duration: 'vacancy' },
    'Share of GPUs that stay free for backfill longer than x hours, all together.',
  ],
  [{ queryType: 'backfillAvailability', view: 'periods' }, 'Every time a GPU was free for backfill.'],
  [
    { queryType: 'backfillAvailability', view: 'periods', duration: 'tenure' },
    'Every time a GPU was in the backfill pool.',
  ],
  [
    { queryType: 'backfillAvailability', metrics: ['meanHours'] },
    'Backfill GPUs in the time range: Mean, all together.',
  ],
  [{ queryType: 'evictions', metrics: ['lost'] }, 'Runs of backfill jobs in the time range: Lost, all together.'],
])('describes %j', (fields, sentence) => expect(say(query(fields))).toBe(sentence));

it('counts what a sentence cannot hold', () => {
  const users = Array.from({ length: 12 }, (_, i) => `u${i}`);
  expect(say(query({ queryType: 'evictions', filter: { users } }))).toContain(
    'Only users u0, u1, u2, u3, u4, u5, u6 or 5 more.'
  );
});

it.each([
  ['allocation', 'timeseries', ''],
  ['allocation', 'summary', 'Use the Table visualization.'],
  ['allocation', 'stateTimeline', 'Use the State timeline visualization.'],
  ['evictions', 'survival', 'Use the Trend visualization.'],
  ['evictions', 'hourOfWeek', 'Use the Heatmap visualization.'],
  ['future', 'any', ''],
])('says which panel draws %s/%s', (queryType, view, sentence) =>
  expect(drawAs(query({ queryType, view }))).toBe(sentence)
);

it('describes a variable', () => {
  expect(describeVariable({})).toBe('');
  expect(describeVariable({ dimension: 'machine', filter: { devices: ['$device'], categories: ['Shared'] } })).toBe(
    'Machines. Only categories Open Capacity; devices $device.'
  );
});
