import { fit } from './defaults';
import { annotationPresets, answerable, applyPreset, byFrame, presets } from './presets';
import { validate } from './validation';

const all = [...presets, ...annotationPresets];

it.each(all)('"$name" is a right query', ({ query }) => {
  const mode = validate({ refId: 'A', ...query }).length ? 'fleet' : 'pool';
  expect(validate({ refId: 'A', ...query }, mode)).toEqual([]);
  expect(fit({ refId: 'A', ...query }, mode)).toEqual({ refId: 'A', ...query, version: 1 });
});

it('are those that the data source can answer', () => {
  const ofPool = answerable(presets).map(({ name }) => name);
  const ofFleet = answerable(presets, 'fleet').map(({ name }) => name);
  expect([...new Set([...ofPool, ...ofFleet])].sort()).toEqual(presets.map(({ name }) => name).sort());
  expect(ofPool).not.toContain('Allocation by pool');
  expect(ofFleet).toEqual(expect.arrayContaining(['Allocation by pool', 'Backfill usage by user']));
  expect(ofFleet).not.toContain('Who holds which GPU now');
});

it('names differ', () => expect(new Set(all.map(({ name }) => name)).size).toBe(all.length));

it('has the questions that the pool asks daily', () => {
  expect(presets.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      'Allocation by category',
      'Backfill usage by user',
      'H200 usage by user',
      'Free GPUs by device now',
      'How long backfill GPUs stay free',
      'Eviction rate by device',
      'Jobs that are evicted again and again',
      'GPU hours lost since the last checkpoint',
    ])
  );
});

it('takes the place of a query, but for what Grafana keeps in it', () => {
  const query = {
    refId: 'B',
    hide: true,
    datasource: { uid: 'gpu' },
    queryType: 'allocation',
    bucket: '1h',
    filter: { devices: ['x'] },
  };
  expect(applyPreset(query, presets[0])).toEqual({
    refId: 'B',
    hide: true,
    key: undefined,
    datasource: { uid: 'gpu' },
    ...presets[0].query,
    version: 1,
  });
});

it('takes everything away where it is merged into the query before', () => {
  const before = {
    refId: 'B',
    queryType: 'evictions',
    groupBy: ['user'],
    bucket: '1h',
    filter: { users: ['u'] },
    limit: 3,
  };
  const { query } = presets.find(({ name }) => name === 'Data freshness')!;
  expect({ ...before, ...applyPreset(before, { name: '', description: '', query }) }).toEqual({
    refId: 'B',
    ...query,
    version: 1,
  });
});

it('stand in groups by the panel that draws them, each once', () => {
  const groups = byFrame(answerable(presets));
  expect(groups.map(([frame]) => frame)).toEqual(['timeseries-multi', 'table', 'survival', 'heatmap-cells']);
  expect(groups.flatMap(([, group]) => group)).toHaveLength(answerable(presets).length);
});
