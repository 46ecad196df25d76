import { GpuQuery } from './types';

/**
 * The query with itself in a text. *New alert rule* of a panel in Grafana 12.3 keeps few keys of a query, among them
 * `expression`, and no other that can hold the view, groupings, metrics and filter.
 */
export function carrying({ expression, ...query }: GpuQuery): GpuQuery {
  return { ...query, expression: JSON.stringify(query) };
}

/** The query that another one carries if it lacks its view, without the text. */
export function unpacked({ expression, ...query }: GpuQuery): GpuQuery {
  if (!expression || query.view !== undefined) {
    return query;
  }
  try {
    const carried: unknown = JSON.parse(expression);
    return typeof carried === 'object' && carried !== null
      ? { ...carried, refId: query.refId, datasource: query.datasource }
      : query;
  } catch {
    return query; // a text of somebody else
  }
}
