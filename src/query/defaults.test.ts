import { defaultAnnotationQuery, defaultQuery, fit, fitFilter, textOf, withoutField } from './defaults';
import { filterFields, kindNames, kinds, optionNames } from './kinds';
import { GpuQuery } from './types';
import { validate, validateForAlert } from './validation';

/** A query that fills every field, right or wrong for its view. */
const everything: GpuQuery = {
  refId: 'A',
  hide: false,
  datasource: { uid: 'gpu' },
  queryType: 'allocation',
  view: 'timeseries',
  groupBy: ['category', 'machineType', 'user', 'project', '$group'],
  metrics: ['allocated', 'gpuHours', 'survival', 'evictions'],
  filter: {
    categories: ['Shared'],
    slots: ['Real', ''],
    devices: ['/H200/'],
    machines: [],
    ownerships: ['CHTC Owned'],
    projects: ['p'],
    users: ['u'],
    idle: true,
  },
  bucket: '1h',
  timezone: 'America/Chicago',
  completeBucketsOnly: true,
  includeOldDevices: false,
  totals: true,
  previous: true,
  last: '2d',
  legend: '{{category}}',
  duration: 'tenure',
  jobHours: [3],
  overheadMinutes: 2,
  withinMinutes: 30,
  shortMinutes: 5,
  limit: 7,
};

const views = kindNames.flatMap((kind) => Object.keys(kinds[kind].views).map((view) => ({ kind, view })));

describe('fit', () => {
  it.each(views)('makes any query right for $kind/$view, once and for all', ({ kind, view }) => {
    const fitted = fit({ ...everything, queryType: kind, view });
    expect(fit(fitted)).toEqual(fitted);
    expect(fitted).toMatchObject({ refId: 'A', hide: false, datasource: { uid: 'gpu' }, version: 1 });
    // Users of allocation series need a metric to go with them; that is said, not repaired.
    expect(
      validate({ ...fitted, metrics: kind === 'allocation' ? undefined : fitted.metrics, filter: undefined })
    ).toEqual([]);
    const known = kinds[kind].views[view];
    expect(Object.keys(fitted.filter ?? {}).sort()).toEqual(
      Object.keys(everything.filter!)
        .filter((field) => field !== 'machines' && (known.filters as string[]).includes(field))
        .sort()
    );
    for (const option of ['bucket', 'timezone', 'completeBucketsOnly', 'totals', 'duration', 'limit'] as const) {
      expect(fitted[option]).toEqual(known.options.includes(option) ? everything[option] : undefined);
    }
  });

  it('writes no defaults down', () => {
    const query = fit({
      refId: 'A',
      queryType: 'allocation',
      bucket: 'auto',
      timezone: '',
      completeBucketsOnly: false,
      includeOldDevices: true,
      limit: 0,
      metrics: [],
      filter: { devices: [] },
    });
    expect(query).toEqual({ refId: 'A', queryType: 'allocation', view: 'timeseries', version: 1 });
  });

  it('takes everything away that a query no longer says, where it is merged into the stored one', () => {
    for (const { kind, view } of views) {
      const { refId, hide, datasource } = everything;
      const fitted = fit({ refId, hide, datasource, queryType: kind, view });
      expect({ ...everything, ...fitted }).toEqual({ refId, hide, datasource, queryType: kind, view, version: 1 });
    }
  });

  it('keeps an explicit empty grouping, which means none', () => {
    expect(fit({ refId: 'A', queryType: 'allocation', groupBy: [] }).groupBy).toEqual([]);
  });

  it('keeps variables among groupings and metrics', () => {
    const query = fit({ refId: 'A', queryType: 'allocation', groupBy: ['$by'], metrics: ['${metric}'] });
    expect(query).toMatchObject({ groupBy: ['$by'], metrics: ['${metric}'] });
  });

  it('leaves a query of an unknown kind or view alone', () => {
    const unknown = { ...everything, queryType: 'future' };
    expect(fit(unknown)).toBe(unknown);
  });
});

describe('textOf', () => {
  it('is equal for equal queries, whatever Grafana adds to them', () => {
    const query = fit({ refId: 'A', queryType: 'allocation', metrics: ['free'] });
    expect(textOf({ datasource: { uid: 'x' }, ...JSON.parse(JSON.stringify(query)) })).toBe(textOf(query));
  });

  it('differs with every field', () => {
    const texts = [...optionNames, 'queryType', 'view', 'groupBy', 'metrics', 'filter', 'refId'].map((field) =>
      textOf({ ...everything, [field]: undefined })
    );
    expect(new Set([...texts, textOf(everything)]).size).toBe(texts.length + 1);
  });
});

describe('fitFilter', () => {
  it('drops blank values, empty lists and unknown fields', () => {
    expect(fitFilter({ devices: [' ', ''], machines: ['m', ''], users: ['u'] }, ['devices', 'machines'])).toEqual({
      machines: ['m'],
    });
  });

  it('is undefined when nothing is left', () => {
    expect(fitFilter({ devices: [] }, filterFields)).toBeUndefined();
    expect(fitFilter({ idle: true }, filterFields)).toBeUndefined();
    expect(fitFilter(undefined, filterFields)).toBeUndefined();
  });
});

it('withoutField leaves the others', () => {
  expect(fitFilter(withoutField({ devices: ['d'], users: ['u'] }, 'users'), filterFields)).toEqual({ devices: ['d'] });
});

it('the default query can be drawn and alerted on; the default annotation is right', () => {
  const query = { refId: 'A', ...defaultQuery };
  expect(fit(query)).toEqual({ ...query, view: 'timeseries' });
  expect([...validate(query), ...validateForAlert(query)]).toEqual([]);
  expect(validate({ refId: 'A', ...defaultAnnotationQuery })).toEqual([]);
});

it('the default query changes nothing of a stored one, under which Grafana lays it', () => {
  const stored = { refId: 'A', queryType: 'userHours', version: 1 };
  expect({ ...defaultQuery, ...stored }).toEqual(stored);
});
