import {
  bucketsOf,
  closedValues,
  dimensionOf,
  dimensionsOf,
  filterFields,
  groupByOf,
  isKind,
  kindNames,
  kinds,
  metricsOf,
  QueryOption,
  queryVersion,
  viewOf,
} from './kinds';
import { chosenFirst, filterLabels, groupByLabels, metricLabels, optionsOf, viewLabels } from './labels';
import schema from './schema.json';

const views = kindNames.flatMap((kind) =>
  Object.entries(kinds[kind].views).map(([view, spec]) => ({ kind, view, spec }))
);
const options: QueryOption[] = [
  'bucket',
  'timezone',
  'completeBucketsOnly',
  'includeOldDevices',
  'totals',
  'previous',
  'last',
  'duration',
  'jobHours',
  'overheadMinutes',
  'withinMinutes',
  'shortMinutes',
  'legend',
  'limit',
];

describe('the shared schema', () => {
  it('has the kinds of query, each with its default view', () => {
    expect(kindNames).toEqual(expect.arrayContaining(['allocation', 'userHours', 'backfillAvailability', 'evictions']));
    for (const kind of kindNames) {
      expect(Object.keys(kinds[kind].views)).toContain(kinds[kind].defaultView);
      expect(kinds[kind].views[kinds[kind].defaultView].groupBy).toEqual(
        expect.arrayContaining(kinds[kind].defaultGroupBy)
      );
    }
  });

  it.each(views)('describes $kind/$view consistently', ({ kind, view, spec }) => {
    expect(spec.metrics).toEqual(expect.arrayContaining(spec.defaultMetrics));
    expect(spec.metrics.length > 0).toBe(spec.defaultMetrics.length > 0);
    expect(Object.keys(schema.filters)).toEqual(expect.arrayContaining(spec.filters));
    expect(options).toEqual(expect.arrayContaining(spec.options));
    expect(['series', 'single-metric', 'none']).toContain(spec.alerting);
    expect(['timeseries-multi', 'table', 'state-timeline', 'survival', 'heatmap-cells']).toContain(spec.frame);
    expect(spec.alerting === 'series').toBe(spec.frame === 'timeseries-multi');
    expect(spec.options.includes('bucket')).toBe(spec.frame === 'timeseries-multi');
    expect(viewLabels[kind]?.[view].label).toMatch(/^[A-Z]/);
    expect(Object.keys(metricLabels[kind] ?? {})).toEqual(expect.arrayContaining(spec.metrics));
    expect(Object.keys(groupByLabels)).toEqual(expect.arrayContaining(spec.groupBy));
  });

  it('knows the values of every field of the filter, or where to ask for them', () => {
    expect(Object.keys(filterLabels).sort()).toEqual(Object.keys(schema.filters).sort());
    for (const field of filterFields.filter((name) => !['tiers', 'schedds'].includes(name))) {
      expect(closedValues[field] ?? dimensionOf[field]).toBeDefined();
    }
    expect([...dimensionsOf.pool, ...dimensionsOf.fleet]).toEqual(expect.arrayContaining(Object.values(dimensionOf)));
  });

  it('is of version 1, the only one', () => expect(queryVersion).toBe(1));
});

it('a view has the buckets that its records allow', () => {
  const { timeseries } = kinds.allocation.views;
  expect(bucketsOf(timeseries)).toEqual(schema.buckets);
  expect(bucketsOf(timeseries, 15)).toEqual(schema.buckets.filter((name) => !['5m', '10m'].includes(name)));
  expect(bucketsOf({ ...timeseries, bucketMinutes: 60 })).toEqual(
    schema.buckets.filter((bucket) => !bucket.endsWith('m'))
  );
});

describe('viewOf', () => {
  it('takes the default view when none is named', () => {
    expect(viewOf({ refId: 'A', queryType: 'userHours' })?.view).toBe('summary');
    expect(viewOf({ refId: 'A', queryType: 'userHours', view: '' })?.view).toBe('summary');
  });

  it('knows no view of an unknown kind, no unknown view, and nothing that objects inherit', () => {
    expect(viewOf({ refId: 'A' })).toBeUndefined();
    expect(viewOf({ refId: 'A', queryType: 'toString' })).toBeUndefined();
    expect(viewOf({ refId: 'A', queryType: 'userHours', view: 'survival' })).toBeUndefined();
    expect(viewOf({ refId: 'A', queryType: 'userHours', view: 'constructor' })).toBeUndefined();
    expect(isKind('evictions')).toBe(true);
  });
});

describe('what is in force', () => {
  it('groups by category where the kind does so by default, but not against an explicit empty list', () => {
    expect(groupByOf({ refId: 'A', queryType: 'allocation' })).toEqual(['category']);
    expect(groupByOf({ refId: 'A', queryType: 'allocation', groupBy: [] })).toEqual([]);
    expect(groupByOf({ refId: 'A', queryType: 'allocation', view: 'health' })).toEqual([]);
    expect(groupByOf({ refId: 'A', queryType: 'evictions' })).toEqual([]);
    expect(groupByOf({ refId: 'A' })).toEqual([]);
  });

  it('takes all metrics in tables and the first in series', () => {
    expect(metricsOf({ refId: 'A', queryType: 'allocation' })).toEqual(['allocatedPercent']);
    expect(metricsOf({ refId: 'A', queryType: 'userHours', metrics: [] })).toEqual(['gpuHours', 'percentOfTotal']);
    expect(metricsOf({ refId: 'A', queryType: 'userHours', metrics: ['gpuHours'] })).toEqual(['gpuHours']);
    expect(metricsOf({ refId: 'A' })).toEqual([]);
  });
});

it('chosenFirst keeps the order of the other options', () => {
  const options = optionsOf(['a', 'b', 'c']);
  expect(chosenFirst(options, 'c').map(({ value }) => value)).toEqual(['c', 'a', 'b']);
  expect(chosenFirst(options, null)).toEqual(options);
});

it('optionsOf lets a word without a label stand for itself', () => {
  expect(optionsOf(['a', '15m'], { a: { label: 'A' } })).toEqual([
    { value: 'a', label: 'A' },
    { value: '15m', label: '15m' },
  ]);
});
