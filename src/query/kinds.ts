import { Mode } from '../settings';
import schema from './schema.json';
import { FilterField, GpuQuery, QueryFilter } from './types';

export type Kind = keyof typeof schema.kinds;

/** A query field that only some views support, in addition to groupBy, metrics and filter. */
export type QueryOption =
  | 'bucket'
  | 'timezone'
  | 'completeBucketsOnly'
  | 'includeOldDevices'
  | 'totals'
  | 'previous'
  | 'last'
  | 'duration'
  | 'jobHours'
  | 'overheadMinutes'
  | 'withinMinutes'
  | 'shortMinutes'
  | 'legend'
  | 'limit';

/** A word of the query model as people read it. */
export interface Label {
  label: string;
  description?: string;
}

/** The options of one view of a kind; the document that Go and TypeScript share says what each field means. */
export interface ViewSpec extends Label {
  groupBy: string[];
  metrics: string[];
  /** The meaning of an empty list of metrics. */
  defaultMetrics: string[];
  filters: Array<keyof QueryFilter>;
  options: QueryOption[];
  /** `series`: always; `single-metric`: with exactly one metric named; `none`: never. */
  alerting: 'series' | 'single-metric' | 'none';
  frame: 'timeseries-multi' | 'table' | 'state-timeline' | 'survival' | 'heatmap-cells';
  /** Where only some metrics can be of chosen users: those. */
  userMetrics?: string[];
  /** The default of the option. */
  duration?: string;
  /** The default of the option. */
  jobHours?: number[];
  /** Metrics that an empty list also means beside a grouping. */
  beside?: Record<string, string[]>;
  /** The only lists of groupings, the default first; missing: any. */
  groups?: string[][];
  /** The shortest bucket that its records allow. */
  bucketMinutes?: number;
}

export interface KindSpec extends Label {
  defaultView: string;
  defaultGroupBy: string[];
  views: Record<string, ViewSpec>;
  /** Of all views. */
  metrics: Record<string, Label>;
}

export const queryVersion = schema.version;
export const kinds = schema.kinds as unknown as Record<Kind, KindSpec>;
export const kindNames = Object.keys(kinds) as Kind[];
/** The kinds that a data source of a mode answers, as far as it does. */
export const kindsOf: Record<Mode, Record<string, KindSpec>> = {
  pool: kinds,
  fleet: schema.fleet.kinds as unknown as Record<string, KindSpec>,
};
/** The dimensions whose values it lists. */
export const dimensionsOf: Record<Mode, string[]> = { pool: schema.dimensions, fleet: schema.fleet.dimensions };
export const buckets = schema.buckets;
export const durations = schema.durations;
/** The options of any view. */
export const optionNames = [
  ...new Set(
    Object.values(kindsOf)
      .flatMap((all) => Object.values(all))
      .flatMap(({ views }) => Object.values(views).flatMap(({ options }) => options))
  ),
];
/** A field of the filter: the dimension whose values it takes, or its only values. */
interface FilterSpec extends Label {
  dimension?: string;
  values?: Array<{ value: string; label: string }>;
}

const filters: Record<string, FilterSpec> = schema.filters;
export const filterFields = Object.keys(filters).filter((field) => field !== 'idle') as FilterField[];

/** The fields that most views know: those of GPUs and their users, of a fleet also the pools. */
export function commonFields(mode: Mode): FilterField[] {
  const known = kindsOf[mode].allocation.views.timeseries.filters;
  return filterFields.filter((field) => known.includes(field));
}

/** The fields of the filter that take words of the model only, and these words. */
export const closedValues = ofFilters(({ values }) => values);

/** The dimension of /values/{dimension} that offers the values of a filter field; undefined where none does. */
export const dimensionOf = ofFilters(({ dimension }) => dimension);

function ofFilters<T>(of: (field: FilterSpec) => T | undefined): Partial<Record<FilterField, T>> {
  const known = filterFields.map((name) => [name, of(filters[name])] as const);
  return Object.fromEntries(known.filter(([, value]) => value !== undefined)) as Partial<Record<FilterField, T>>;
}

export function isKind(name: string | undefined): name is Kind {
  return name !== undefined && Object.hasOwn(kinds, name);
}

/** The view of a query and its options; undefined if the kind or the view does not exist. */
export function viewOf(query: GpuQuery, mode: Mode = 'pool'): { kind: Kind; view: string; spec: ViewSpec } | undefined {
  if (!isKind(query.queryType) || !Object.hasOwn(kindsOf[mode], query.queryType)) {
    return undefined;
  }
  const { defaultView, views } = kindsOf[mode][query.queryType];
  const view = query.view || defaultView;
  return Object.hasOwn(views, view) ? { kind: query.queryType, view, spec: views[view] } : undefined;
}

/** The groupings in force: the query's own, otherwise the kind's default if the view can group. */
export function groupByOf(query: GpuQuery, mode?: Mode): string[] {
  const found = viewOf(query, mode);
  if (!found || found.spec.groupBy.length === 0) {
    return [];
  }
  return query.groupBy ?? found.spec.groups?.[0] ?? kinds[found.kind].defaultGroupBy;
}

/** The metrics in force: the named ones, otherwise the view's default. */
export function metricsOf(query: GpuQuery, mode?: Mode): string[] {
  const spec = viewOf(query, mode)?.spec;
  if (query.metrics?.length || !spec) {
    return query.metrics ?? [];
  }
  return [...spec.defaultMetrics, ...groupByOf(query, mode).flatMap((grouping) => spec.beside?.[grouping] ?? [])];
}

/** The buckets that a view can have: those of its records' length and longer, and multiples of a slice (0: of any). */
export function bucketsOf({ bucketMinutes = 0 }: ViewSpec, sliceMinutes = 0): string[] {
  return buckets.filter((name) => {
    const [, length, unit] = /^(\d+)([mh])$/.exec(name) ?? [];
    const minutes = Number(length) * (unit === 'h' ? 60 : 1);
    return length === undefined || (minutes >= bucketMinutes && (sliceMinutes === 0 || minutes % sliceMinutes === 0));
  });
}

/** Whether the metrics let `users` choose: in some views they do so among GPUs that have a user only. */
export function canFilterUsers(query: GpuQuery, mode?: Mode): boolean {
  const possible = viewOf(query, mode)?.spec.userMetrics;
  return !possible || (query.metrics?.length === 1 && possible.includes(query.metrics[0]));
}

/** The filter fields to offer: those the view knows, `users` only where it can choose or already does. */
export function filtersOf(query: GpuQuery, mode?: Mode): Array<keyof QueryFilter> {
  const filters = viewOf(query, mode)?.spec.filters ?? [];
  return canFilterUsers(query, mode) || query.filter?.users?.length
    ? filters
    : filters.filter((field) => field !== 'users');
}
