import { excludes, negated, noProject } from './entries';
import { categories, filterFields, groupByOf, metricsOf, viewOf } from './kinds';
import { dimensionLabels, filterLabels, groupByLabels, metricLabels, panelLabels } from './labels';
import { GpuQuery, QueryFilter, VariableQuery } from './types';

/** Says in words what a query answers; empty while the kind or view is unknown. */
export function describe(query: GpuQuery): string {
  const found = viewOf(query);
  if (!found) {
    return '';
  }
  const { kind, view, spec } = found;
  const knows = (option: (typeof spec.options)[number]) => spec.options.includes(option);
  const sentences = [
    [subject(kind, view, query), grouping(query, spec.groupBy), knows('bucket') ? buckets(query.bucket) : '']
      .filter(Boolean)
      .join(', '),
    filters(query.filter),
    standApart(query) ? 'Real and backfill slots stand apart: they are never added' : '',
  ];
  if (knows('timezone') && query.timezone) {
    sentences.push(`Hours and days are those of ${query.timezone}`);
  }
  if (knows('completeBucketsOnly') && query.completeBucketsOnly) {
    sentences.push('Only buckets that lie within the time range and the data');
  }
  if (knows('includeOldDevices') && query.includeOldDevices === false) {
    sentences.push('Old devices are left out');
  }
  if (knows('limit') && query.limit) {
    sentences.push(`At most ${query.limit}`);
  }
  return joined(sentences);
}

/** Says which panel draws the answer to a query; empty for series, which Grafana's default panel draws. */
export function drawAs(query: GpuQuery): string {
  const found = viewOf(query);
  if (!found || found.spec.frame === 'timeseries-multi') {
    return '';
  }
  return `Draw it as a ${panelLabels[found.spec.frame].label.toLowerCase()}.`;
}

/** Says in words what the values of a dashboard variable are; empty while there is no dimension. */
export function describeVariable({ dimension, filter }: Pick<VariableQuery, 'dimension' | 'filter'>): string {
  return dimension ? joined([dimensionLabels[dimension]?.label ?? dimension, filters(filter)]) : '';
}

function joined(sentences: string[]): string {
  return sentences
    .filter(Boolean)
    .map((sentence) => sentence + '.')
    .join(' ');
}

/** Whether an answer about all slots has groups for real and for backfill ones, though it was not asked to. */
function standApart(query: GpuQuery): boolean {
  const found = viewOf(query);
  const groupBy = groupByOf(query);
  return (
    found?.kind === 'allocation' &&
    found.spec.groupBy.includes('slots') &&
    !groupBy.includes('category') &&
    !groupBy.includes('slots') &&
    query.filter?.slots?.length !== 1
  );
}

function subject(kind: string, view: string, query: GpuQuery): string {
  const metrics = () => list(metricsOf(query).map((name) => metricLabels[kind]?.[name]?.label ?? name));
  const tenure = query.duration === 'tenure' || (query.duration !== 'vacancy' && view === 'survival');
  switch (`${kind}/${view}`) {
    case 'allocation/timeseries':
      return `${metrics()} of GPUs over time`;
    case 'allocation/summary':
      return `${metrics()} of GPUs, averaged over the time range`;
    case 'allocation/current':
      return 'What every GPU does at the newest snapshot of the time range, for whom and since when';
    case 'allocation/stateTimeline':
      return 'The state of every GPU over time';
    case 'allocation/machines':
      return query.filter?.idle
        ? 'The machines on which nothing was claimed on primary slots in the time range'
        : 'Every machine with its GPUs and what was allocated in the time range';
    case 'allocation/health':
      return `How fresh and how complete the data are: ${metrics()}`;
    case 'allocation/annotations':
      return "Gaps in the collector's snapshots, as annotations";
    case 'userHours/summary':
      return `${metrics()} of every user in the time range`;
    case 'userHours/timeseries':
      return 'GPU hours over time';
    case 'backfillAvailability/summary':
      return query.metrics?.length
        ? `Backfill GPUs in the time range: ${metrics()}`
        : 'How long GPUs stay free for backfill, how they are used, and how long they can be kept';
    case 'backfillAvailability/timeseries':
      return `Backfill GPUs over time: ${metrics()}`;
    case 'backfillAvailability/periods':
      return tenure ? 'Every time a GPU was in the backfill pool' : 'Every time a GPU was free for backfill';
    case 'backfillAvailability/transitions':
      return 'How often GPUs of the backfill pool changed from one state to another';
    case 'backfillAvailability/survival':
      return tenure
        ? 'Share of GPUs that can be kept for backfill longer than x hours'
        : 'Share of GPUs that stay free for backfill longer than x hours';
    case 'backfillAvailability/hourOfWeek':
      return `Backfill GPUs by hour of the day and weekday: ${metrics()}`;
    case 'evictions/summary':
      return query.metrics?.length
        ? `Runs of backfill jobs in the time range: ${metrics()}`
        : 'Runs of backfill jobs: how they ended, the eviction rate and the hours lost';
    case 'evictions/timeseries':
      return `Runs of backfill jobs over time: ${metrics()}`;
    case 'evictions/events':
      return 'Every eviction of a backfill job in the time range';
    case 'evictions/runs':
      return 'Every run of a backfill job in the time range and how it ended';
    case 'evictions/survival':
      return 'Share of backfill runs that are not evicted within x hours';
    case 'evictions/hourOfWeek':
      return `Backfill jobs by hour of the day and weekday: ${metrics()}`;
    case 'evictions/annotations':
      return 'Evictions of backfill jobs, as annotations';
    default:
      return `${kind} ${view}`;
  }
}

function grouping(query: GpuQuery, known: string[]): string {
  if (known.length === 0) {
    return '';
  }
  const names = groupByOf(query).map((name) => groupByLabels[name]?.label.toLowerCase() ?? name);
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
      const chosen = values.filter((value) => !excludes(value)).map(entryName);
      const excluded = values.filter(excludes).map((value) => entryName(negated(value)));
      parts.push(
        [name, list(chosen, 'or'), excluded.length && `not ${list(excluded, 'nor')}`].filter(Boolean).join(' ')
      );
    }
  }
  return parts.length ? `Only ${parts.join('; ')}` : '';
}

/** An entry of a filter as people know it. */
function entryName(entry: string): string {
  return categories.find(({ key }) => key === entry)?.name ?? (entry === noProject.value ? noProject.label : entry);
}

/** "a, b and c"; beyond eight the rest is counted, so that the sentence stays one. */
function list(names: string[], last = 'and'): string {
  const shown = names.length > 8 ? [...names.slice(0, 7), `${names.length - 7} more`] : names;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} ${last} ${shown[shown.length - 1]}`;
}
