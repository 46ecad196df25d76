import { FilterField, GpuQuery, QueryFilter } from './types';
import { hasVariable } from './interpolate';
import { filterFields, queryVersion, viewOf } from './kinds';

/**
 * What a new query asks: the kind's own defaults, allocated % of each category over time. It can be drawn, explored and
 * alerted on. Grafana lays it under stored queries as well, so it says no more than the kind.
 */
export const defaultQuery: Partial<GpuQuery> = { queryType: 'allocation', version: queryVersion };

/** What a new annotation asks: the evictions of backfill jobs. */
export const defaultAnnotationQuery: Partial<GpuQuery> = {
  queryType: 'evictions',
  view: 'annotations',
  version: queryVersion,
};

/** Fits a query to its view: what the view does not know goes, what is a default is not written down. */
export function fit(query: GpuQuery): GpuQuery {
  const found = viewOf(query);
  if (!found) {
    return query;
  }
  const { spec, view } = found;
  const knows = (option: (typeof spec.options)[number]) => spec.options.includes(option);
  const fitted: GpuQuery = {
    ...query,
    view,
    groupBy: spec.groupBy.length ? query.groupBy?.filter((name) => isKnown(name, spec.groupBy)) : undefined,
    metrics: orUndefined(query.metrics?.filter((name) => isKnown(name, spec.metrics))),
    filter: fitFilter(query.filter, spec.filters),
    bucket: knows('bucket') && query.bucket !== 'auto' ? query.bucket : undefined,
    timezone: knows('timezone') ? query.timezone || undefined : undefined,
    completeBucketsOnly: knows('completeBucketsOnly') ? query.completeBucketsOnly || undefined : undefined,
    includeOldDevices: knows('includeOldDevices') && query.includeOldDevices === false ? false : undefined,
    totals: knows('totals') ? query.totals : undefined,
    duration: knows('duration') ? query.duration || undefined : undefined,
    limit: knows('limit') ? query.limit || undefined : undefined,
    version: queryVersion,
  };
  return withoutUndefined(fitted);
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

/** The filter without one of its fields: what the values offered for that field depend on. */
export function withoutField(filter: QueryFilter | undefined, field: FilterField): QueryFilter {
  return { ...filter, [field]: undefined };
}

function isKnown(name: string, known: string[]): boolean {
  return known.includes(name) || hasVariable(name);
}

function orUndefined(list: string[] | undefined): string[] | undefined {
  return list?.length ? list : undefined;
}

function withoutUndefined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as T;
}
