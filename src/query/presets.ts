import { Mode } from '../settings';
import { fit } from './defaults';
import { viewOf, ViewSpec } from './kinds';
import { GpuQuery } from './types';
import { validate } from './validation';

/** A question that is ready to be asked. */
export interface Preset {
  name: string;
  description: string;
  query: Partial<GpuQuery>;
}

export const presets: Preset[] = [
  {
    name: 'Allocation by category',
    description: 'Allocated % of each category over time',
    query: { queryType: 'allocation', view: 'timeseries', groupBy: ['category'], metrics: ['allocatedPercent'] },
  },
  {
    name: 'Allocation table',
    description: 'Averages of each category with totals for primary and for backfill slots',
    query: { queryType: 'allocation', view: 'summary', groupBy: ['category'] },
  },
  {
    name: 'Free GPUs by device now',
    description: 'GPUs without a job on which jobs may start; the last point is now',
    query: {
      queryType: 'allocation',
      view: 'timeseries',
      groupBy: ['device'],
      metrics: ['free'],
      filter: { slots: ['Real'] },
    },
  },
  {
    name: 'Who holds which GPU now',
    description: 'Every GPU with its state, user and job',
    query: { queryType: 'allocation', view: 'current' },
  },
  {
    name: 'Idle machines',
    description: 'Machines on which no primary slot was claimed',
    query: { queryType: 'allocation', view: 'machines', filter: { idle: true } },
  },
  {
    name: 'Backfill usage by user',
    description: 'GPU hours on backfill slots, by slot type and user',
    query: { queryType: 'userHours', view: 'summary', groupBy: ['category'], filter: { slots: ['Backfill'] } },
  },
  {
    name: 'H200 usage by user',
    description: 'GPU hours on H200, by slot type and user',
    query: { queryType: 'userHours', view: 'summary', groupBy: ['category'], filter: { devices: ['/\\bH200\\b/'] } },
  },
  {
    name: 'Top users over time',
    description: 'GPU hours of the ten users with the most, and of all others together',
    query: { queryType: 'userHours', view: 'timeseries', groupBy: ['user'] },
  },
  {
    name: 'How long backfill GPUs stay free',
    description: 'Statistics on free periods by device',
    query: { queryType: 'backfillAvailability', view: 'summary', groupBy: ['device'] },
  },
  {
    name: 'How long a backfill GPU can be kept',
    description: 'Survival curve by device',
    query: { queryType: 'backfillAvailability', view: 'survival', groupBy: ['device'], duration: 'tenure' },
  },
  {
    name: 'How long a backfill job can be',
    description: 'Share of jobs that finish, by length and device, and how often to checkpoint',
    query: { queryType: 'backfillAvailability', view: 'jobLength', groupBy: ['device'] },
  },
  {
    name: 'Backfill utilization over time',
    description: 'Used, available and taken GPUs of the backfill pool',
    query: {
      queryType: 'backfillAvailability',
      view: 'timeseries',
      groupBy: [],
      metrics: ['used', 'available', 'taken'],
    },
  },
  {
    name: 'Busy hours of backfill',
    description: 'Used % by hour of the day and weekday',
    query: { queryType: 'backfillAvailability', view: 'hourOfWeek', metrics: ['usedPercent'] },
  },
  {
    name: 'Eviction rate by device',
    description: 'Evictions per 100 backfill GPU hours with their 95% interval',
    query: {
      queryType: 'evictions',
      view: 'summary',
      groupBy: ['device'],
      metrics: ['runs', 'evictions', 'gpuHours', 'ratePer100GpuHours', 'rateLow', 'rateHigh'],
    },
  },
  {
    name: 'Evictions one by one',
    description: 'Time, machine, job, and the user who took over',
    query: { queryType: 'evictions', view: 'events' },
  },
  {
    name: 'Jobs that are evicted again and again',
    description: 'Runs, evictions, yields and lost GPU hours of each job, most evicted first',
    query: { queryType: 'evictions', view: 'jobs' },
  },
  {
    name: 'GPU hours lost since the last checkpoint',
    description: 'Lost GPU hours of each user, next to those of the whole evicted runs, and how many runs had saved',
    query: {
      queryType: 'evictions',
      view: 'summary',
      groupBy: ['user'],
      metrics: ['evictions', 'yielded', 'lostGpuHours', 'evictedGpuHours', 'checkpointedPercent', 'lostPercent'],
    },
  },
  {
    name: 'Who is waiting for GPUs now',
    description: 'Every waiting job, its request, and the free GPUs that fit it',
    query: { queryType: 'demand', view: 'waiting' },
  },
  {
    name: 'GPUs requested by waiting jobs',
    description: 'GPUs requested by waiting jobs over time, and GPUs that were free in the meantime',
    query: {
      queryType: 'demand',
      view: 'timeseries',
      groupBy: [],
      metrics: ['waitingGpus', 'freeWhileWaiting'],
    },
  },
  {
    name: 'Why jobs wait',
    description: 'GPUs requested by waiting jobs, by the first thing that keeps them waiting',
    query: { queryType: 'demand', view: 'obstacles' },
  },
  {
    name: 'Why GPUs are unused',
    description: 'Unused GPUs, by reason',
    query: { queryType: 'demand', view: 'unused' },
  },
  {
    name: 'Stranded GPUs now',
    description: 'Where GPUs sit unused, what is missing there, and how many jobs could run with it',
    query: { queryType: 'demand', view: 'unusedNow' },
  },
  {
    name: 'How long jobs wait for GPUs',
    description: 'Share of jobs still waiting after x hours, by requested GPU memory',
    query: { queryType: 'demand', view: 'survival', groupBy: ['gpuMemory'] },
  },
  {
    name: 'GPUs held idle now',
    description: 'Runs whose GPUs have not computed for 2 h or more, longest first',
    query: { queryType: 'utilization', view: 'idle' },
  },
  {
    name: 'Utilization by user',
    description: 'Held, measured, busy and idle GPU hours of each user',
    query: { queryType: 'utilization', view: 'summary', groupBy: ['user'] },
  },
  {
    name: 'Idle hours by device',
    description: 'GPU hours in idle stretches of 30 min or more',
    query: {
      queryType: 'utilization',
      view: 'summary',
      groupBy: ['device'],
      metrics: ['heldGpuHours', 'measuredPercent', 'idleGpuHours', 'idlePercent', 'idleRuns'],
    },
  },
  {
    name: 'Allocation by pool',
    description: 'Allocated % of each pool over time',
    query: {
      queryType: 'allocation',
      view: 'timeseries',
      groupBy: ['pool'],
      metrics: ['allocatedPercent'],
      filter: { slots: ['Real'] },
    },
  },
  {
    name: 'GPU hours by pool and device',
    description: 'GPU hours of each user, by pool and device',
    query: { queryType: 'userHours', view: 'summary', groupBy: ['pool', 'device'] },
  },
  {
    name: 'Freshness of facts',
    description: 'How far the facts of each pool reach, and what they cover',
    query: { queryType: 'allocation', view: 'pools' },
  },
  {
    name: 'Data freshness',
    description: 'Age of the newest snapshot, coverage, lost GPUs, job ads',
    query: { queryType: 'allocation', view: 'health' },
  },
];

export const annotationPresets: Preset[] = [
  {
    name: 'Evictions',
    description: 'Every eviction of a backfill job',
    query: { queryType: 'evictions', view: 'annotations' },
  },
  {
    name: 'Collector gaps',
    description: 'Times without snapshots',
    query: { queryType: 'allocation', view: 'annotations' },
  },
];

/** The query of a preset, in place of another; Grafana's own fields of the query stay. */
export function applyPreset(query: GpuQuery, preset: Preset, mode?: Mode): GpuQuery {
  const { refId, hide, key, datasource } = query;
  return fit({ refId, hide, key, datasource, ...preset.query }, mode);
}

/** The presets that a data source of a mode can answer. */
export function answerable(all: Preset[], mode?: Mode): Preset[] {
  return all.filter(({ query }) => validate({ refId: '', ...query }, mode).length === 0);
}

/** The presets by the shape of their answers, which determines the panels that can draw them. */
export function byFrame(all: Preset[], mode?: Mode): Array<[ViewSpec['frame'], Preset[]]> {
  const groups = new Map<ViewSpec['frame'], Preset[]>();
  for (const preset of all) {
    const frame = viewOf({ refId: '', ...preset.query }, mode)?.spec.frame;
    if (frame) {
      groups.set(frame, [...(groups.get(frame) ?? []), preset]);
    }
  }
  return [...groups];
}
