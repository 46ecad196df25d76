import { DrilldownsApplicability, MetricFindValue } from '@grafana/data';

import { queryTexts } from '../labels';
import { Mode } from '../settings';
import { kindsOf, viewOf } from './kinds';
import { groupByLabels } from './labels';
import { GpuQuery } from './types';

/** The groupings that Grafana recommends first, if the dashboard's queries have them. */
const recommended = ['device', 'project', 'user'];

/** The groupings that a dashboard can choose: those of its queries' views, or of all views if none is given. */
export function groupByKeys(queries: GpuQuery[] | undefined, mode: Mode): MetricFindValue[] {
  const views = queries?.length
    ? queries.flatMap((query) => viewOf(query, mode)?.spec ?? [])
    : Object.values(kindsOf[mode]).flatMap(({ views: all }) => Object.values(all));
  const keys = new Set(views.flatMap(({ groupBy }) => groupBy));
  return [...keys].map((key) => ({ text: nameOf(key), value: key }));
}

/** The first groupings to offer, without those that are chosen already. */
export function recommendedKeys(queries: GpuQuery[] | undefined, chosen: string[], mode: Mode): string[] {
  const possible = groupByKeys(queries, mode).map(({ value }) => value);
  return recommended.filter((key) => possible.includes(key) && !chosen.includes(key));
}

/** Whether a dashboard's groupings apply to queries: a grouping does if one of their views has it. */
export function keysApplicability(
  keys: string[],
  queries: GpuQuery[] | undefined,
  mode: Mode
): DrilldownsApplicability[] {
  const possible = groupByKeys(queries, mode).map(({ value }) => value);
  return keys.map((key) => {
    const applicable = possible.includes(key);
    return applicable ? { key, applicable } : { key, applicable, reason: queryTexts.unusedGrouping(nameOf(key)) };
  });
}

/**
 * The query grouped as the dashboard says: those of its groupings that the view has replace the query's own. Without any
 * the query stays as it is. A template of names that needs another grouping goes: the answer would be an error.
 */
export function regrouped(query: GpuQuery, keys: string[], mode: Mode): GpuQuery {
  const spec = viewOf(query, mode)?.spec;
  const groupBy = keys.filter((key) => spec?.groupBy.includes(key));
  const possible = spec?.groups === undefined || spec.groups.some((group) => group.join() === groupBy.join());
  if (groupBy.length === 0 || !possible) {
    return query;
  }
  const { legend = '', ...others } = query;
  const needed = [...legend.matchAll(/\{\{\s*(\w+)\s*\}\}/g)].map(([, key]) => key);
  const named = needed.every((key) => key === 'metric' || groupBy.includes(key));
  return { ...others, groupBy, ...(named && query.legend !== undefined && { legend }) };
}

function nameOf(key: string): string {
  return groupByLabels[key]?.label ?? key;
}
