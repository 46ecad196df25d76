import { AdHocVariableFilter, DrilldownsApplicability } from '@grafana/data';

import { queryTexts } from '../labels';
import { Mode } from '../settings';
import { entryOf, excludes, isPattern, named, negated, noProject } from './entries';
import { canFilterUsers, dimensionOf, filterFields, viewOf } from './kinds';
import { filterLabels } from './labels';
import { FilterField, GpuQuery, QueryFilter } from './types';

/** A key and a value, as a cell of a table or a label of a series has them. */
export interface KeyValue {
  key: string;
  value: string;
}

/** The field of the filter that a key means: its own name, or that of a grouping, which columns and labels have. */
export function fieldOf(key: string): FilterField | undefined {
  return filterFields.find((field) => field === key || dimensionOf[field] === key);
}

/** The query under a dashboard's ad-hoc filters, as far as its view knows their fields; those of no other data source. */
export function withAdHocFilters(query: GpuQuery, filters: AdHocVariableFilter[], mode?: Mode): GpuQuery {
  const usable = filters.filter(({ key }) => canUse(query, key, mode));
  return usable.length ? { ...query, filter: narrowed(query.filter ?? {}, usable) } : query;
}

/** The fields of a dashboard's ad-hoc filters that a query's view does not know. */
export function unusedFields(query: GpuQuery, filters: AdHocVariableFilter[], mode?: Mode): FilterField[] {
  return unique(
    filters.flatMap(({ key }) => {
      const field = fieldOf(key);
      return field && !canUse(query, key, mode) ? [field] : [];
    })
  );
}

/** Whether a dashboard's ad-hoc filters apply to queries: a filter does if one of their views has its field. */
export function filtersApplicability(
  filters: AdHocVariableFilter[],
  queries: GpuQuery[] = [],
  mode?: Mode
): DrilldownsApplicability[] {
  return filters.map(({ key, origin }) => {
    const field = fieldOf(key);
    const applicable =
      field !== undefined && (queries.length === 0 || queries.some((query) => canUse(query, key, mode)));
    const reason = applicable ? undefined : queryTexts.unusedFilter(field ? filterLabels[field].label : key);
    return { key, applicable, ...(reason && { reason }), ...(origin && { origin }) };
  });
}

function canUse(query: GpuQuery, key: string, mode?: Mode): boolean {
  const field = fieldOf(key);
  const known = viewOf(query, mode)?.spec.filters ?? [];
  return field !== undefined && known.includes(field) && (field !== 'users' || canFilterUsers(query, mode));
}

/** A filter that lets pass only values that pass the given filter and all ad-hoc filters. */
export function narrowed(filter: QueryFilter, filters: AdHocVariableFilter[]): QueryFilter {
  const result = { ...filter };
  for (const adHoc of filters) {
    const field = fieldOf(adHoc.key);
    if (field) {
      result[field] = both(result[field] ?? [], entriesOf(field, adHoc));
    }
  }
  return result;
}

/** The entries that are equivalent to an ad-hoc filter. */
function entriesOf(field: FilterField, { key, operator, value, values }: AdHocVariableFilter): string[] {
  const several = (values ?? [value]).map((each) => entryFor(field, each));
  switch (operator) {
    case '=':
      return [entryFor(field, value)];
    case '!=':
      return [negated(entryFor(field, value))];
    case '=|':
      return several;
    case '!=|':
      return several.map(negated);
    case '=~':
      return [patternOf(value)];
    case '!~':
      return [negated(patternOf(value))];
    default:
      throw new Error(`Operator "${operator}" isn't supported for ${key}. Use =, !=, =|, !=|, =~ or !~.`);
  }
}

function entryFor(field: FilterField, value: string): string {
  if (field === 'projects' && (value === '' || value === noProject.value || value === noProject.label)) {
    return noProject.value;
  }
  return entryOf(value);
}

function patternOf(value: string): string {
  return isPattern(value) ? value : `/${value}/`;
}

/** The entries that let pass only values that pass both lists. */
function both(list: string[], added: string[]): string[] {
  const chosen = list.filter((entry) => !excludes(entry));
  const further = added.filter((entry) => !excludes(entry));
  const excluded = [...list, ...added].filter(excludes);
  if (chosen.length === 0 || further.length === 0) {
    return unique([...chosen, ...further, ...excluded]);
  }
  const common = unique([
    ...chosen.filter((entry) => further.some((other) => includes(other, entry))),
    ...further.filter((entry) => chosen.some((other) => includes(other, entry))),
  ]);
  // A value that is both chosen and excluded does not pass.
  return common.length ? unique([...common, ...excluded]) : unique([further[0], negated(further[0]), ...excluded]);
}

/** Whether all that one entry chooses is chosen by another one. */
function includes(wide: string, narrow: string): boolean {
  if (wide === narrow || !isPattern(wide)) {
    return wide === narrow;
  }
  if (isPattern(narrow)) {
    throw new Error(`Can't combine the patterns ${wide} and ${narrow}. Merge them into one.`);
  }
  return new RegExp(wide.slice(1, -1)).test(named(narrow));
}

/** Whether a query chooses a value, or with `out` leaves it out. */
export function hasFilter(query: GpuQuery, { key, value }: KeyValue, out = false): boolean {
  const field = fieldOf(key);
  const entry = field && entryFor(field, value);
  return Boolean(entry && query.filter?.[field]?.includes(out ? negated(entry) : entry));
}

/** The query that chooses a value, or with `out` excludes it; an earlier entry for the value is removed. */
export function filtered(query: GpuQuery, pair: KeyValue, out = false, mode?: Mode): GpuQuery {
  return changed(query, pair, mode, (entry) => [out ? negated(entry) : entry]);
}

/** Adds the filter, or removes it if the query already has it. */
export function toggled(query: GpuQuery, pair: KeyValue, out = false, mode?: Mode): GpuQuery {
  return hasFilter(query, pair, out) ? changed(query, pair, mode, () => []) : filtered(query, pair, out, mode);
}

function changed(
  query: GpuQuery,
  { key, value }: KeyValue,
  mode: Mode | undefined,
  entries: (entry: string) => string[]
): GpuQuery {
  const field = fieldOf(key);
  if (!field || !viewOf(query, mode)?.spec.filters.includes(field)) {
    return query;
  }
  const entry = entryFor(field, value);
  const others = (query.filter?.[field] ?? []).filter((other) => other !== entry && other !== negated(entry));
  return { ...query, filter: { ...query.filter, [field]: [...others, ...entries(entry)] } };
}

function unique<Entry extends string>(entries: Entry[]): Entry[] {
  return [...new Set(entries)];
}
