import { Mode } from '../settings';
import { FilterField, GpuQuery, QueryFilter } from './types';
import { hasVariable } from './interpolate';
import { canFilterUsers, filterFields, optionNames, QueryOption, queryVersion, viewOf, ViewSpec } from './kinds';

/**
 * What a new query asks: the kind's own defaults, allocated % of each category over time. It can be drawn, explored and
 * alerted on. Grafana lays it under stored queries as well, so it says no more than the kind.
 */
export const defaultQuery: Partial<GpuQuery> = { queryType: 'allocation', version: queryVersion };

/** The default of a new annotation: the evictions of backfill jobs. */
export const defaultAnnotationQuery: Partial<GpuQuery> = {
  queryType: 'evictions',
  view: 'annotations',
  version: queryVersion,
};

/**
 * Fits a query to its view: what the view does not know goes, what is a default is not written down. Every field that the
 * plugin has is there, undefined where it says nothing: alert rules merge an edited query into the stored one, and what is
 * merely missing would stay.
 */
export function fit(query: GpuQuery, mode?: Mode): GpuQuery {
  const found = viewOf(query, mode);
  if (!found) {
    return query;
  }
  const { spec, view } = found;
  const options = optionNames.map((name) => [name, spec.options.includes(name) ? written(name, query) : undefined]);
  return {
    ...query,
    ...Object.fromEntries(options),
    view,
    groupBy: fitGroupBy(query.groupBy, spec),
    metrics: orUndefined(query.metrics?.filter((name) => isKnown(name, spec.metrics))),
    filter: fitFilter(query.filter, spec.filters),
    version: queryVersion,
  };
}

/** A query with chosen users names the metric that only they have, in views where others are of all GPUs. */
export function withUserMetric(query: GpuQuery, mode?: Mode): GpuQuery {
  const metric = viewOf(query, mode)?.spec.userMetrics?.[0];
  return metric && query.filter?.users && !canFilterUsers(query, mode) ? { ...query, metrics: [metric] } : query;
}

/** The plugin's own fields of a query, as a text: equal texts mean the same query. */
export function textOf(query: GpuQuery): string {
  const { refId, queryType, view, groupBy, metrics, filter, version } = query;
  return JSON.stringify([
    refId,
    queryType,
    view,
    groupBy,
    metrics,
    filter,
    version,
    ...optionNames.map((o) => query[o]),
  ]);
}

/** Keeps the non-empty lists of a filter, and of them the known fields. */
export function fitFilter(
  filter: QueryFilter | undefined,
  known: ReadonlyArray<keyof QueryFilter>
): QueryFilter | undefined {
  const fitted: QueryFilter = {};
  for (const field of filterFields) {
    const values = filter?.[field]?.filter((value) => value.trim() !== '') ?? [];
    if (known.includes(field) && values.length > 0) {
      fitted[field] = values;
    }
  }
  if (known.includes('idle') && filter?.idle) {
    fitted.idle = true;
  }
  return Object.keys(fitted).length > 0 ? fitted : undefined;
}

/** The filter without one of its fields. The values offered for that field depend on it. */
export function withoutField(filter: QueryFilter | undefined, field: FilterField): QueryFilter {
  return { ...filter, [field]: undefined };
}

/** The known groupings; undefined, which is the default, where a view does not know their combination. */
function fitGroupBy(groupBy: string[] | undefined, { groupBy: known, groups }: ViewSpec): string[] | undefined {
  const fitted = known.length ? groupBy?.filter((name) => isKnown(name, known)) : undefined;
  const isPossible = !groups || fitted?.some(hasVariable) || groups.some((list) => list.join() === fitted?.join());
  return isPossible ? fitted : undefined;
}

function isKnown(name: string, known: string[]): boolean {
  return known.includes(name) || hasVariable(name);
}

function orUndefined(list: string[] | undefined): string[] | undefined {
  return list?.length ? list : undefined;
}

/** The options that are a default when nothing is said. */
const optionDefaults: Partial<GpuQuery> = {
  bucket: 'auto',
  completeBucketsOnly: false,
  includeOldDevices: true,
  previous: false,
  limit: 0,
};

function written<Option extends QueryOption>(name: Option, query: GpuQuery): GpuQuery[Option] {
  const value = query[name];
  const isEmpty = value === '' || (Array.isArray(value) && value.length === 0);
  return isEmpty || value === optionDefaults[name] ? undefined : value;
}
