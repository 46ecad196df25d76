import {
  dimensionOf,
  dimensions,
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
import {
  dimensionLabels,
  durationLabels,
  filterLabels,
  groupByLabels,
  kindLabels,
  metricLabels,
  optionsOf,
  viewLabels,
} from './labels';
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
  'duration',
  'limit',
];

describe('the shared schema', () => {
  it('has the four kinds of query, each with its default view', () => {
    expect(kindNames).toEqual(['allocation', 'userHours', 'backfillAvailability', 'evictions']);
    for (const kind of kindNames) {
      expect(Object.keys(kinds[kind].views)).toContain(kinds[kind].defaultView);
      expect(kinds[kind].views[kinds[kind].defaultView].groupBy).toEqual(
        expect.arrayContaining(kinds[kind].defaultGroupBy)
      );
    }
  });

  it.each(views)('describes $kind/$view consistently', ({ kind, spec }) => {
    expect(spec.metrics).toEqual(expect.arrayContaining(spec.defaultMetrics));
    expect(spec.metrics.length > 0).toBe(spec.defaultMetrics.length > 0);
    expect(schema.filters).toEqual(expect.arrayContaining(spec.filters));
    expect(options).toEqual(expect.arrayContaining(spec.options));
    expect(['series', 'single-metric', 'none']).toContain(spec.alerting);
    expect(['timeseries-multi', 'table', 'state-timeline', 'survival', 'heatmap-cells']).toContain(spec.frame);
    expect(spec.alerting === 'series').toBe(spec.frame === 'timeseries-multi');
    expect(spec.options.includes('bucket')).toBe(spec.frame === 'timeseries-multi');
    expect(Object.keys(metricLabels[kind])).toEqual(expect.arrayContaining(spec.metrics));
    expect(Object.keys(groupByLabels)).toEqual(expect.arrayContaining(spec.groupBy));
  });

  it('has a readable name for every word', () => {
    expect(Object.keys(kindLabels)).toEqual(kindNames);
    for (const kind of kindNames) {
      expect(Object.keys(viewLabels[kind]).sort()).toEqual(Object.keys(kinds[kind].views).sort());
    }
    expect(Object.keys(filterLabels).sort()).toEqual([...schema.filters].sort());
    expect(Object.keys(dimensionLabels).sort()).toEqual([...schema.dimensions].sort());
    expect(Object.keys(durationLabels)).toEqual(schema.durations);
    expect(Object.keys(dimensionOf)).toEqual(filterFields);
    expect(dimensions).toEqual(expect.arrayContaining(Object.values(dimensionOf)));
  });

  it('has no readable name for a word that does not exist', () => {
    const groupings = new Set(views.flatMap(({ spec }) => spec.groupBy));
    expect(Object.keys(groupByLabels).sort()).toEqual([...groupings].sort());
    for (const kind of kindNames) {
      const metrics = new Set(Object.values(kinds[kind].views).flatMap((spec) => spec.metrics));
      expect(Object.keys(metricLabels[kind]).sort()).toEqual([...metrics].sort());
    }
  });

  it('is of version 1, the only one', () => expect(queryVersion).toBe(1));
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

it('optionsOf lets a word without a label stand for itself', () => {
  expect(optionsOf(['a', '15m'], { a: { label: 'A' } })).toEqual([
    { value: 'a', label: 'A' },
    { value: '15m', label: '15m' },
  ]);
});
