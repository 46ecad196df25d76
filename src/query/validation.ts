import { Mode } from '../settings';
import { named } from './entries';
import { hasVariable } from './interpolate';
import {
  bucketsOf,
  canFilterUsers,
  closedValues,
  dimensionOf,
  durations,
  filterFields,
  kindsOf,
  queryVersion,
  viewOf,
} from './kinds';
import { filterLabels, metricLabels, viewLabels } from './labels';
import { GpuQuery } from './types';

/** The most rows a query may ask for. */
export const maxLimit = 50_000;

/** Whether a query is complete enough to be sent. The backend reports all other errors. */
export function isComplete(query: GpuQuery): boolean {
  return Boolean(query.queryType);
}

/** The errors of a query, in sentences that list the valid values. The backend refuses the same. */
export function validate(query: GpuQuery, mode: Mode = 'pool'): string[] {
  const problems = problemsOf(query, mode);
  const isOfPool = mode === 'fleet' && problems.length > 0 && problemsOf(query, 'pool').length === 0;
  return isOfPool ? [...problems, "Use the pool's own data source for this query."] : problems;
}

function problemsOf(query: GpuQuery, mode: Mode): string[] {
  const kinds = kindsOf[mode];
  if (!query.queryType || !Object.hasOwn(kinds, query.queryType)) {
    const names = Object.keys(kinds).join(', ');
    return query.queryType ? [`Unknown query type "${query.queryType}". Valid types: ${names}.`] : [];
  }
  const found = viewOf(query, mode);
  if (!found) {
    const views = Object.keys(kinds[query.queryType].views).join(', ');
    return [`Unknown view "${query.view}" of ${query.queryType}. Valid views: ${views}.`];
  }
  const { kind, view, spec } = found;
  const place = `${kind}/${view}`;
  const problems = [
    ...unknown(query.groupBy ?? [], spec.groupBy, `${place} cannot be grouped by`),
    ...unknown(query.metrics ?? [], spec.metrics, `${place} has no metric`),
  ];
  const possible = spec.groups?.map((list) => list.join(', '));
  if (query.groupBy && possible && !query.groupBy.some(hasVariable) && !possible.includes(query.groupBy.join(', '))) {
    problems.push(`${place} can only be grouped by ${possible.join(' or ')}.`);
  }
  for (const field of filterFields) {
    const values = (query.filter?.[field] ?? []).filter((value) => value !== '');
    const known = closedValues[field]?.flatMap(({ value, label }) => [...new Set([value, label])]);
    if (values.length > 0 && !spec.filters.includes(field)) {
      problems.push(`${place} cannot be filtered by ${field}.`);
    } else if (known) {
      problems.push(...unknown(values.map(named), known, `There is no ${dimensionOf[field] ?? field}`));
    }
  }
  if (query.filter?.idle && !spec.filters.includes('idle')) {
    problems.push(`${place} cannot be filtered by idle.`);
  }
  if (query.filter?.users?.length && !canFilterUsers(query, mode)) {
    const possible = spec.userMetrics?.map((name) => `"${metricLabels[kind]?.[name]?.label ?? name}"`).join(' or ');
    problems.push(
      `The ${filterLabels.users.label} filter needs ${possible} as the only metric, because free GPUs have no user.`
    );
  }
  problems.push(...unknown(query.bucket ? [query.bucket] : [], bucketsOf(spec), 'There is no bucket'));
  problems.push(...unknown(query.duration ? [query.duration] : [], durations, 'There is no duration'));
  problems.push(
    ...outside('withinMinutes', query.withinMinutes, 1, 10_080),
    ...outside('shortMinutes', query.shortMinutes, 1, 1_440)
  );
  if (query.last && !hasVariable(query.last) && !/^[1-9]\d{0,4}[hd]$/.test(query.last)) {
    problems.push(`"${query.last}" is not a time up to now. Use hours or days, such as 6h or 2d.`);
  }
  const limit = query.limit ?? 0;
  if (!Number.isInteger(limit) || limit < 0 || limit > maxLimit) {
    problems.push(`The limit is a whole number from 0 (the view's default) to ${maxLimit}.`);
  }
  if ((query.version ?? queryVersion) > queryVersion) {
    problems.push(`Saved by a newer plugin (query version ${query.version}, supported: ${queryVersion}).`);
  }
  return problems;
}

/**
 * What keeps a query from working in an alert rule, though it may be right in a panel; of the rule's time range too, where
 * it and the length of a slice (0: every snapshot) are known.
 */
export function validateForAlert(
  query: GpuQuery,
  sliceMinutes = 0,
  rangeMinutes?: number,
  mode: Mode = 'pool'
): string[] {
  const found = viewOf(query, mode);
  if (!found) {
    return [];
  }
  const problems: string[] = [];
  const { kind, spec } = found;
  if (spec.alerting === 'none') {
    const possible = Object.entries(kindsOf[mode][kind].views)
      .filter(([, other]) => other.alerting !== 'none')
      .map(([name]) => viewLabels[kind]?.[name]?.label ?? name);
    problems.push(`This view can't be used in alert rules. Use ${possible.join(', ')}.`);
  }
  if (spec.alerting === 'single-metric' && query.metrics?.length !== 1) {
    problems.push('An alert rule on a table needs exactly one metric.');
  }
  if (spec.alerting === 'single-metric' && query.totals) {
    problems.push('Turn off totals to alert on this table.');
  }
  if (spec.frame === 'timeseries-multi' && rangeMinutes !== undefined && rangeMinutes < 2 * sliceMinutes) {
    problems.push(
      `A range of ${rangeMinutes} minutes may contain no complete slice, so the rule may return no data. ` +
        `Use at least ${2 * sliceMinutes} minutes.`
    );
  }
  const texts = [
    ...(query.groupBy ?? []),
    ...(query.metrics ?? []),
    ...filterFields.flatMap((field) => query.filter?.[field] ?? []),
    ...(query.jobHours ?? []).map(String),
    ...[query.bucket, query.timezone, query.duration, query.last].map((text) => text ?? ''),
  ];
  const variables = texts.filter(hasVariable);
  if (variables.length > 0) {
    problems.push(`Alert rules don't support dashboard variables. Replace ${[...new Set(variables)].join(', ')}.`);
  }
  return problems;
}

function outside(option: string, value: number | undefined, min: number, max: number): string[] {
  return value !== undefined && !(value >= min && value <= max) ? [`${option} is a number from ${min} to ${max}.`] : [];
}

function unknown(values: string[], known: string[], what: string): string[] {
  return values
    .filter((value) => !known.includes(value) && !hasVariable(value))
    .map((value) => `${what} "${value}". ${known.length ? `Valid values: ${known.join(', ')}` : 'There is none'}.`);
}
