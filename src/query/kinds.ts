import schema from './schema.json';
import { FilterField, GpuQuery, QueryFilter } from './types';

export type Kind = keyof typeof schema.kinds;

/** A query field that only some views know, beside groupBy, metrics and filter. */
export type QueryOption =
  'bucket' | 'timezone' | 'completeBucketsOnly' | 'includeOldDevices' | 'totals' | 'duration' | 'limit';

/** What one view of a kind knows; the document that Go and TypeScript share says what each field means. */
export interface ViewSpec {
  groupBy: string[];
  metrics: string[];
  /** What an empty list of metrics means. */
  defaultMetrics: string[];
  filters: Array<keyof QueryFilter>;
  options: QueryOption[];
  /** `series`: always; `single-metric`: with exactly one metric named; `none`: never. */
  alerting: 'series' | 'single-metric' | 'none';
  frame: 'timeseries-multi' | 'table' | 'state-timeline' | 'survival' | 'heatmap-cells';
}

export interface KindSpec {
  defaultView: string;
  defaultGroupBy: string[];
  views: Record<string, ViewSpec>;
}

export const queryVersion = schema.version;
export const kinds = schema.kinds as Record<Kind, KindSpec>;
export const kindNames = Object.keys(kinds) as Kind[];
export const dimensions = schema.dimensions;
export const buckets = schema.buckets;
export const durations = schema.durations;
export const categories = schema.categories;
export const ownerships = schema.ownerships;
export const slots = schema.slots;
/** The options of any view. */
export const optionNames = [
  ...new Set(Object.values(kinds).flatMap(({ views }) => Object.values(views).flatMap(({ options }) => options))),
];
export const filterFields = schema.filters.filter((field) => field !== 'idle') as FilterField[];

/** The dimension of /values/{dimension} that offers the values of a filter field. */
export const dimensionOf: Record<FilterField, string> = {
  categories: 'category',
  slots: 'slots',
  devices: 'device',
  machines: 'machine',
  ownerships: 'ownership',
  projects: 'project',
  users: 'user',
};

export function isKind(name: string | undefined): name is Kind {
  return name !== undefined && Object.hasOwn(kinds, name);
}

/** The view a query asks for and what it knows; undefined when the kind or the view does not exist. */
export function viewOf(query: GpuQuery): { kind: Kind; view: string; spec: ViewSpec } | undefined {
  if (!isKind(query.queryType)) {
    return undefined;
  }
  const { defaultView, views } = kinds[query.queryType];
  const view = query.view || defaultView;
  return Object.hasOwn(views, view) ? { kind: query.queryType, view, spec: views[view] } : undefined;
}

/** The groupings in force: the query's own, else the kind's default where the view can group. */
export function groupByOf(query: GpuQuery): string[] {
  const found = viewOf(query);
  if (!found || found.spec.groupBy.length === 0) {
    return [];
  }
  return query.groupBy ?? kinds[found.kind].defaultGroupBy;
}

/** The metrics in force: the named ones, else the view's default. */
export function metricsOf(query: GpuQuery): string[] {
  return query.metrics?.length ? query.metrics : (viewOf(query)?.spec.defaultMetrics ?? []);
}

/** Whether the metrics let `users` choose: in allocation's series and tables they do so among allocated GPUs only. */
export function canFilterUsers(query: GpuQuery): boolean {
  const found = viewOf(query);
  const isAllocation = found?.kind === 'allocation' && found.spec.metrics.includes('allocated');
  return !isAllocation || (query.metrics?.length === 1 && query.metrics[0] === 'allocated');
}

/** The filter fields to offer: those the view knows, `users` only where it can choose or already does. */
export function filtersOf(query: GpuQuery): Array<keyof QueryFilter> {
  const filters = viewOf(query)?.spec.filters ?? [];
  return canFilterUsers(query) || query.filter?.users?.length ? filters : filters.filter((field) => field !== 'users');
}
