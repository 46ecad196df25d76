import { GpuQuery } from './types';
import { isComplete, maxLimit, validate, validateForAlert } from './validation';

const query = (fields: Partial<GpuQuery>): GpuQuery => ({ refId: 'A', queryType: 'allocation', ...fields });

describe('validate', () => {
  it('has nothing to say about a new or a right query', () => {
    expect(validate({ refId: 'A' })).toEqual([]);
    expect(
      validate(
        query({
          groupBy: ['device'],
          metrics: ['free'],
          filter: { categories: ['Shared', 'Open Capacity', '$c'], slots: ['!Real'], devices: ['!any'] },
          bucket: '15m',
          limit: 10,
          version: 1,
        })
      )
    ).toEqual([]);
  });

  it.each<[string, Partial<GpuQuery>, string]>([
    ['kind', { queryType: 'gpus' }, 'Unknown query type "gpus". Valid types: allocation, userHours'],
    ['view', { view: 'runs' }, 'Unknown view "runs" of allocation. Valid views: timeseries, summary'],
    ['grouping', { groupBy: ['user'] }, 'allocation/timeseries cannot be grouped by "user". Valid values: category'],
    ['grouping of a view without any', { view: 'health', groupBy: ['user'] }, 'by "user". There is none.'],
    [
      'metric',
      { metrics: ['gpuHours'] },
      'allocation/timeseries has no metric "gpuHours". Valid values: allocatedPercent',
    ],
    ['category', { filter: { categories: ['Sharde'] } }, 'There is no category "Sharde". Valid values: Priority-'],
    ['slots', { filter: { slots: ['real'] } }, 'There is no slots "real". Valid values: Real, Backfill.'],
    ['ownership', { filter: { ownerships: ['CHTC'] } }, 'There is no ownership "CHTC". Valid values: Researcher Owned'],
    ['filter', { view: 'health', filter: { devices: ['x'] } }, 'allocation/health cannot be filtered by devices.'],
    ['idle', { filter: { idle: true } }, 'allocation/timeseries cannot be filtered by idle.'],
    ['users', { filter: { users: ['u'] } }, 'needs "Allocated (avg.)" as the only metric'],
    ['bucket', { bucket: '2h' }, 'There is no bucket "2h". Valid values: auto, window, 5m'],
    ['duration', { duration: 'life' }, 'There is no duration "life". Valid values: tenure, vacancy.'],
    ['negative limit', { limit: -1 }, 'The limit is a whole number'],
    ['broken limit', { limit: 1.5 }, 'The limit is a whole number'],
    ['large limit', { limit: maxLimit + 1 }, 'The limit is a whole number'],
    ['version', { version: 2 }, 'query version 2, supported: 1'],
  ])('names a wrong %s and what is possible', (_, fields, message) => {
    expect(validate(query(fields))).toEqual([expect.stringContaining(message)]);
  });

  it('lets users choose among allocated GPUs', () => {
    const filter = { users: ['u'] };
    expect(validate(query({ filter, metrics: ['allocated'] }))).toEqual([]);
    expect(validate(query({ filter, metrics: ['allocated', 'free'] }))).toHaveLength(1);
    expect(validate(query({ filter, view: 'current' }))).toEqual([]);
    expect(validate(query({ filter, queryType: 'userHours' }))).toEqual([]);
    expect(validate(query({ filter, queryType: 'backfillAvailability' }))).toHaveLength(1);
  });

  it('reports all that is wrong at once', () => {
    expect(validate(query({ groupBy: ['a', 'b'], metrics: ['c'], bucket: 'd' }))).toHaveLength(4);
  });
});

describe('validateForAlert', () => {
  it('accepts series and tables of one metric', () => {
    expect(validateForAlert(query({}))).toEqual([]);
    expect(validateForAlert(query({ view: 'health', metrics: ['gpusLost'] }))).toEqual([]);
    expect(validateForAlert({ refId: 'A' })).toEqual([]);
  });

  it.each<[string, Partial<GpuQuery>, string]>([
    [
      'a view that cannot alert',
      { view: 'current' },
      "This view can't be used in alert rules. Use Time series, Summary",
    ],
    ['a table of all metrics', { view: 'summary' }, 'exactly one metric'],
    ['a table of two metrics', { view: 'summary', metrics: ['free', 'drained'] }, 'exactly one metric'],
    ['totals', { view: 'summary', metrics: ['free'], totals: true }, 'Turn off totals'],
    ['variables', { filter: { devices: ['$d', '/[[x]]/'], machines: ['${m}', '$d'] } }, 'Replace $d, ${m}.'],
    ['a variable bucket', { bucket: '$b' }, 'Replace $b.'],
  ])('warns about %s', (_, fields, message) => {
    expect(validateForAlert(query(fields))).toEqual([expect.stringContaining(message)]);
  });
});

describe('the time range of an alert rule', () => {
  it('holds two slices, so that one of them is finished', () => {
    expect(validateForAlert(query({}), 15, 10)).toEqual([expect.stringContaining('Use at least 30')]);
    expect(validateForAlert(query({}), 15, 30)).toEqual([]);
  });

  it('does not matter where it or the slice is unknown, nor to tables', () => {
    expect(validateForAlert(query({}), 0, 10)).toEqual([]);
    expect(validateForAlert(query({}), 15)).toEqual([]);
    expect(validateForAlert(query({ view: 'health', metrics: ['gpusLost'] }), 15, 10)).toEqual([]);
  });
});

it('a query is complete with a kind', () => {
  expect(isComplete({ refId: 'A' })).toBe(false);
  expect(isComplete(query({}))).toBe(true);
});

describe('a data source of many pools', () => {
  it('knows pools, and no buckets shorter than an hour', () => {
    const asked = query({ groupBy: ['pool'], filter: { pools: ['a'] }, bucket: '1h' });
    expect(validate(asked, 'fleet')).toEqual([]);
    expect(validate(asked)).toHaveLength(2);
    expect(validate({ ...asked, bucket: '15m' }, 'fleet')).toEqual([
      expect.stringContaining('There is no bucket "15m". Valid values: auto, window, 1h'),
    ]);
  });

  it.each<[Partial<GpuQuery>]>([[{ view: 'current' }], [{ groupBy: ['machine'] }], [{ filter: { machines: ['m'] } }]])(
    'refers %j to the data source of the pool',
    (fields) => {
      expect(validate(query(fields))).toEqual([]);
      expect(validate(query(fields), 'fleet')).toContain("Use the pool's own data source for this query.");
    }
  );

  it('says so of nothing that is wrong anywhere', () => {
    expect(validate(query({ groupBy: ['colour'] }), 'fleet')).toHaveLength(1);
  });
});
