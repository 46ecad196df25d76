import { Mode } from '../settings';
import { excludes, named, noProject } from './entries';
import { closedValues, filterFields, groupByOf, metricsOf, QueryOption, viewOf } from './kinds';
import { dimensionLabels, filterLabels, groupByLabels, metricLabels, panelLabels, viewLabels } from './labels';
import { FilterField, GpuQuery, QueryFilter, VariableQuery } from './types';

/** Describes a query in words; empty while the kind or view is unknown. */
export function describe(query: GpuQuery, mode?: Mode): string {
  const found = viewOf(query, mode);
  if (!found) {
    return '';
  }
  const { kind, view, spec } = found;
  const knows = (option: QueryOption) => spec.options.includes(option);
  const sentences = [
    [
      subject(kind, view, query, mode),
      spec.groupBy.length ? grouping(groupByOf(query, mode)) : '',
      knows('bucket') ? buckets(query.bucket) : '',
    ]
      .filter(Boolean)
      .join(', '),
    filters(query.filter),
    standApart(query, mode) ? 'Primary and backfill slots are listed separately and never added' : '',
  ];
  if (knows('timezone') && query.timezone) {
    sentences.push(`Hours and days are those of ${query.timezone}`);
  }
  if (knows('completeBucketsOnly') && query.completeBucketsOnly) {
    sentences.push('Complete buckets only');
  }
  if (knows('previous') && query.previous) {
    sentences.push('For the period of the same length before the time range');
  }
  if (knows('last') && query.last) {
    sentences.push(`For the last ${query.last} up to now, whatever the time range`);
  }
  if (knows('includeOldDevices') && query.includeOldDevices === false) {
    sentences.push('Old devices are left out');
  }
  if (knows('jobHours') && query.jobHours?.length) {
    sentences.push(`Jobs of ${list(query.jobHours.map(String), 'or')} hours`);
  }
  if (knows('overheadMinutes') && query.overheadMinutes !== undefined) {
    sentences.push(`Each checkpoint takes ${query.overheadMinutes} minutes`);
  }
  if (knows('withinMinutes') && query.withinMinutes !== undefined) {
    sentences.push(`Started within ${query.withinMinutes} minutes`);
  }
  if (knows('shortMinutes') && query.shortMinutes !== undefined) {
    sentences.push(`Failed within ${query.shortMinutes} minutes`);
  }
  if (knows('limit') && query.limit) {
    sentences.push(`At most ${query.limit}`);
  }
  return joined(sentences);
}

/** The panel that draws the answer to a query; undefined for series, which Grafana's default panel draws. */
export function panelFor(query: GpuQuery, mode?: Mode): string | undefined {
  const frame = viewOf(query, mode)?.spec.frame;
  return frame && frame !== 'timeseries-multi' ? panelLabels[frame].label : undefined;
}

/** Says which panel draws the answer to a query; empty for series. */
export function drawAs(query: GpuQuery, mode?: Mode): string {
  const panel = panelFor(query, mode);
  return panel ? `Use the ${panel} visualization.` : '';
}

/** Describes the values of a dashboard variable in words; empty while there is no dimension. */
export function describeVariable({ dimension, filter }: Pick<VariableQuery, 'dimension' | 'filter'>): string {
  return dimension ? joined([dimensionLabels[dimension]?.label ?? dimension, filters(filter)]) : '';
}

function joined(sentences: string[]): string {
  return sentences
    .filter(Boolean)
    .map((sentence) => sentence + '.')
    .join(' ');
}

/** Whether an answer about all slots has groups for primary and for backfill ones, without being grouped by slots. */
function standApart(query: GpuQuery, mode?: Mode): boolean {
  const found = viewOf(query, mode);
  const groupBy = groupByOf(query, mode);
  return (
    found?.kind === 'allocation' &&
    found.spec.groupBy.includes('slots') &&
    !groupBy.includes('category') &&
    !groupBy.includes('slots') &&
    query.filter?.slots?.length !== 1
  );
}

/** A description of each view whose description in the schema does not fit into a sentence. */
const subjects: Record<string, (query: GpuQuery, metrics: string) => string> = {
  'allocation/timeseries': (_, metrics) => `${metrics} of GPUs over time`,
  'allocation/summary': (_, metrics) => `${metrics} of GPUs, averaged over the time range`,
  'allocation/current': () => 'State, user and job of every GPU in the newest snapshot of the time range',
  'allocation/machines': ({ filter }) =>
    filter?.idle
      ? 'The machines on which nothing was claimed on primary slots in the time range'
      : 'Every machine with its GPUs and what was allocated in the time range',
  'allocation/health': (_, metrics) => `How recent and how complete the data are: ${metrics}`,
  'allocation/pools': (_, metrics) => `How recent and how complete the facts of each pool are: ${metrics}`,
  'allocation/annotations': () => "Gaps in the collector's snapshots, as annotations",
  'userHours/summary': (query, metrics) =>
    query.metrics?.length === 1 && !query.totals
      ? `${metrics} of all users together in the time range`
      : `${metrics} of every user in the time range`,
  'userHours/timeseries': () => 'GPU hours over time',
  'backfillAvailability/summary': (query, metrics) =>
    query.metrics?.length
      ? `Backfill GPUs in the time range: ${metrics}`
      : 'How long GPUs stay free for backfill, how they are used, and how long they can be kept',
  'backfillAvailability/timeseries': (_, metrics) => `Backfill GPUs over time: ${metrics}`,
  'backfillAvailability/periods': (query) =>
    isTenure(query) ? 'Every time a GPU was in the backfill pool' : 'Every time a GPU was free for backfill',
  'backfillAvailability/transitions': () => 'How often GPUs of the backfill pool changed from one state to another',
  'backfillAvailability/survival': (query) =>
    isTenure(query)
      ? 'Share of GPUs that can be kept for backfill longer than x hours'
      : 'Share of GPUs that stay free for backfill longer than x hours',
  'backfillAvailability/hourOfWeek': (_, metrics) => `Backfill GPUs by hour of the day and weekday: ${metrics}`,
  'backfillAvailability/jobLength': (_, metrics) =>
    `What jobs of given lengths can expect from backfill GPUs: ${metrics}`,
  'evictions/summary': (query, metrics) =>
    query.metrics?.length
      ? `Runs of backfill jobs in the time range: ${metrics}`
      : 'Runs of backfill jobs: how they ended, the eviction rate and the hours lost',
  'evictions/timeseries': (_, metrics) => `Runs of backfill jobs over time: ${metrics}`,
  'evictions/events': () => 'Every eviction of a backfill job in the time range',
  'evictions/runs': () => 'Every run of a backfill job in the time range and how it ended',
  'evictions/survival': () => 'Share of backfill runs that are not evicted within x hours',
  'evictions/hourOfWeek': (_, metrics) => `Backfill jobs by hour of the day and weekday: ${metrics}`,
  'evictions/annotations': () => 'Evictions of backfill jobs, as annotations',
  'utilization/timeseries': (_, metrics) => `Held GPUs over time: ${metrics}`,
  'utilization/summary': (query, metrics) =>
    query.metrics?.length
      ? `Held GPUs in the time range: ${metrics}`
      : 'Share of the held GPU hours in which GPUs compute',
  'utilization/runs': () => 'Every run in the time range and how busy its GPUs were',
  'utilization/idle': () => 'The runs whose GPUs are not computing now, longest first',
  'utilization/hourOfWeek': (_, metrics) => `Held GPUs by hour of the day and weekday: ${metrics}`,
  'demand/timeseries': (_, metrics) => `Jobs waiting for GPUs over time: ${metrics}`,
  'demand/summary': (query, metrics) =>
    query.metrics?.length
      ? `Jobs that waited for GPUs in the time range: ${metrics}`
      : 'Who is waiting for GPUs, for how long, and how many GPUs were free in the meantime',
  'demand/waiting': () => 'Every job waiting for GPUs at the end of the time range, and its request',
  'demand/survival': () => 'Share of jobs still waiting for their GPUs after x hours',
  'demand/hourOfWeek': (_, metrics) => `Jobs waiting for GPUs by hour of the day and weekday: ${metrics}`,
};

function subject(kind: string, view: string, query: GpuQuery, mode?: Mode): string {
  const metrics = list(metricsOf(query, mode).map((name) => metricName(kind, name)));
  return subjects[`${kind}/${view}`]?.(query, metrics) ?? viewLabels[kind]?.[view]?.description ?? `${kind} ${view}`;
}

/** A metric in a sentence, where all figures are averages that can be. */
function metricName(kind: string, name: string): string {
  return (metricLabels[kind]?.[name]?.label ?? name).replace(' (avg.)', '');
}

function isTenure(query: GpuQuery): boolean {
  return (query.duration || viewOf(query)?.spec.duration) === 'tenure';
}

function grouping(groupBy: string[]): string {
  const names = groupBy.map((name) => groupByLabels[name]?.label.toLowerCase() ?? name);
  return names.length ? `by ${list(names)}` : 'all together';
}

function buckets(bucket: string | undefined): string {
  switch (bucket) {
    case undefined:
    case '':
    case 'auto':
      return '';
    case 'window':
      return 'one value for the whole time range';
    default:
      return `in buckets of ${bucket}`;
  }
}

function filters(filter: QueryFilter | undefined): string {
  const parts: string[] = [];
  for (const field of filterFields) {
    const values = filter?.[field];
    if (values?.length) {
      const name = filterLabels[field].label.toLowerCase();
      const nameOf = (entry: string) => entryName(field, named(entry));
      const chosen = values.filter((value) => !excludes(value)).map(nameOf);
      const excluded = values.filter(excludes).map(nameOf);
      parts.push(
        [name, list(chosen, 'or'), excluded.length && `not ${list(excluded, 'nor')}`].filter(Boolean).join(' ')
      );
    }
  }
  return parts.length ? `Only ${parts.join('; ')}` : '';
}

/** The readable name of a filter's entry. */
function entryName(field: FilterField, name: string): string {
  const known = field === 'projects' ? [noProject] : (closedValues[field] ?? []);
  return known.find(({ value }) => value === name)?.label ?? name;
}

/** "a, b and c"; beyond eight the rest is counted, so that the sentence stays one. */
function list(names: string[], last = 'and'): string {
  const shown = names.length > 8 ? [...names.slice(0, 7), `${names.length - 7} more`] : names;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} ${last} ${shown[shown.length - 1]}`;
}
