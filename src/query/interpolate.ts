import { excludes, isPattern, negated } from './entries';
import { filterFields } from './kinds';
import { GpuQuery, QueryFilter } from './types';

/** Where the values of dashboard variables come from; Grafana's template service in the product. */
export interface Variables {
  /** The values of a variable for one request; `all` when "All" is selected; undefined when there is no such variable. */
  values(name: string): string[] | 'all' | undefined;
  /** Replaces every known variable in a text; a list inside a /pattern/ becomes an alternative. */
  replace(text: string): string;
}

const single = /^!?(?:\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)(?::\w+)?\]\])$/;

/**
 * Fills dashboard variables in: a variable that is a whole entry of a list becomes its values, and a list with an entry
 * that is "All" keeps only its exclusions, because without other entries it means all. An entry that would exclude "All"
 * excludes nothing. Variables that do not exist stay as they are: the backend names them.
 */
export function interpolate(query: GpuQuery, variables: Variables): GpuQuery {
  const filled: GpuQuery = { ...query };
  if (query.filter) {
    filled.filter = interpolateFilter(query.filter, variables);
  }
  if (query.groupBy) {
    filled.groupBy = fill(query.groupBy, variables);
  }
  if (query.metrics) {
    filled.metrics = fill(query.metrics, variables);
  }
  if (query.bucket) {
    filled.bucket = variables.replace(query.bucket);
  }
  if (query.timezone) {
    filled.timezone = variables.replace(query.timezone);
  }
  if (query.duration) {
    filled.duration = variables.replace(query.duration);
  }
  if (query.last) {
    filled.last = variables.replace(query.last);
  }
  if (query.jobHours) {
    filled.jobHours = fill(query.jobHours.map(String), variables).map((text) =>
      hasVariable(text) ? text : Number(text)
    );
  }
  if (query.legend) {
    filled.legend = variables.replace(query.legend);
  }
  return filled;
}

export function interpolateFilter(filter: QueryFilter, variables: Variables): QueryFilter {
  const filled: QueryFilter = { ...filter };
  for (const field of filterFields) {
    const list = filter[field];
    if (list) {
      filled[field] = fill(list, variables);
    }
  }
  return filled;
}

/** Whether a text holds a reference to a variable: `$name`, `${name…}`, or outside patterns `[[name]]`. */
export function hasVariable(text: string): boolean {
  return /\$\w|\$\{\w[^}]*\}/.test(text) || (!isPattern(text) && /\[\[\w[^\]]*\]\]/.test(text));
}

function fill(list: string[], variables: Variables): string[] {
  const filled: string[] = [];
  let all = false;
  for (const entry of list) {
    const match = single.exec(entry);
    const values = match ? variables.values(match[1] ?? match[2] ?? match[3]) : undefined;
    if (values === 'all') {
      all ||= !excludes(entry);
      continue;
    }
    filled.push(...(values?.map((value) => (excludes(entry) ? negated(value) : value)) ?? [variables.replace(entry)]));
  }
  return [...new Set(all ? filled.filter(excludes) : filled)];
}
