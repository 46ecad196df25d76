import { ViewSpec } from './kinds';
import { FilterField } from './types';

/** A word of the query model as people read it. */
export interface Label {
  label: string;
  description?: string;
}

export const kindLabels: Record<string, Label> = {
  allocation: { label: 'Allocation', description: 'How many GPUs are allocated, available, free or drained' },
  userHours: { label: 'User hours', description: 'GPU hours of each user' },
  backfillAvailability: {
    label: 'Backfill availability',
    description: 'How long GPUs stay free for backfill, and how they are used',
  },
  evictions: { label: 'Evictions', description: 'Runs of backfill jobs: how they ended and what evictions cost' },
};

const overTime = { label: 'Time series', description: 'One series for each group' };
const hourOfWeek = { label: 'Hour of week', description: 'Heat map: hour of the day by weekday' };

export const viewLabels: Record<string, Record<string, Label>> = {
  allocation: {
    timeseries: overTime,
    summary: { label: 'Summary', description: 'Averages over the time range, with totals' },
    current: { label: 'Current', description: 'What every GPU does at the newest snapshot' },
    stateTimeline: { label: 'State timeline', description: 'The state of every GPU over time' },
    machines: { label: 'Machines', description: 'Every machine with its GPUs and what was allocated' },
    health: { label: 'Health', description: 'How fresh and how complete the data are' },
    annotations: { label: 'Collector gaps', description: 'Times without snapshots, as annotations' },
  },
  userHours: {
    summary: { label: 'Summary', description: 'Users beneath each group, with totals' },
    timeseries: overTime,
  },
  backfillAvailability: {
    summary: { label: 'Summary', description: 'Statistics of the times a GPU was free for backfill' },
    timeseries: overTime,
    periods: { label: 'Periods', description: 'Every single time a GPU was free for backfill' },
    transitions: { label: 'Transitions', description: 'How often GPUs changed from one state to another' },
    survival: { label: 'Survival', description: 'Share of GPUs that last longer than x hours' },
    hourOfWeek,
  },
  evictions: {
    summary: { label: 'Summary', description: 'Runs, evictions, their rate and the hours lost' },
    timeseries: overTime,
    events: { label: 'Events', description: 'Every single eviction' },
    runs: { label: 'Runs', description: 'Every run of a backfill job and its outcome' },
    survival: { label: 'Survival', description: 'Share of runs that are not evicted within x hours' },
    hourOfWeek,
    annotations: { label: 'Eviction marks', description: 'Evictions as annotations' },
  },
};

export const groupByLabels: Record<string, Label> = {
  category: { label: 'Category', description: 'The six categories of slots' },
  slots: { label: 'Real or backfill' },
  device: { label: 'Device', description: 'Model of the GPU' },
  memory: { label: 'Memory', description: 'Class of the GPU memory' },
  machine: { label: 'Machine' },
  machineType: { label: 'Machine type', description: 'Priority (researcher or CHTC owned) or shared' },
  ownership: { label: 'Ownership', description: 'Researcher owned, CHTC owned or open capacity' },
  project: { label: 'Project', description: 'Projects with priority on the machine' },
  user: { label: 'User' },
  cause: { label: 'Cause', description: 'Why runs were evicted' },
  evidence: { label: 'Evidence', description: 'How an eviction is known' },
};

const survival: Record<string, Label> = {
  survival: { label: 'Survival', description: 'Share that lasts longer than x hours' },
  low: { label: '95 % low', description: 'Lower bound of the 95 % interval' },
  high: { label: '95 % high', description: 'Upper bound of the 95 % interval' },
  atRisk: { label: 'At risk', description: 'How many the curve rests on at x hours' },
};

const backfillState: Record<string, Label> = {
  available: { label: 'Available', description: 'GPUs free for backfill, on average' },
  used: { label: 'Used', description: 'GPUs with a backfill job, on average' },
  taken: { label: 'Taken', description: 'GPUs held by their owners on primary slots, on average' },
  usedPercent: { label: 'Used %', description: 'Used of used and available' },
};

/** Metrics by kind: the same word can mean different things in different kinds. Columns have these names too. */
export const metricLabels: Record<string, Record<string, Label>> = {
  allocation: {
    allocatedPercent: { label: 'Allocated %', description: 'Allocated of available GPUs' },
    allocated: { label: 'Allocated', description: 'GPUs with a job, on average' },
    available: { label: 'Available', description: 'GPUs claimed or unclaimed, on average' },
    free: { label: 'Free', description: 'GPUs that nobody uses, backfill neither, on average' },
    unclaimed: { label: 'Unclaimed', description: 'GPUs not claimed in their category, on average' },
    drained: { label: 'Drained', description: 'GPUs that take no jobs, on average' },
    prevented: { label: 'Prevented', description: 'GPUs whose machine prevents jobs, on average' },
    snapshotAgeSeconds: { label: 'Age of the newest snapshot', description: 'Seconds since the newest snapshot' },
    coveragePercent: { label: 'Coverage', description: 'Part of the time range that has data' },
    gpusSeen: { label: 'GPUs seen', description: 'In the newest snapshot' },
    gpusLost: { label: 'GPUs lost', description: 'Seen in the 24 hours before it and no more' },
    jobsLagSeconds: { label: 'Lag of job ads', description: 'Seconds since the newest job ad' },
    linkRate: { label: 'Link rate', description: 'Percentage of backfill runs whose job ad was found' },
  },
  userHours: {
    gpuHours: { label: 'GPU hours', description: 'GPUs held, times hours' },
    percentOfTotal: { label: '% of total', description: "Share of the table's GPU hours" },
  },
  backfillAvailability: {
    count: { label: 'Count', description: 'Complete periods, or changes of state' },
    meanHours: { label: 'Mean', description: 'Hours a GPU stayed free, mean' },
    medianHours: { label: 'Median', description: 'Hours a GPU stayed free, median' },
    minHours: { label: 'Minimum', description: 'Hours of the shortest period' },
    maxHours: { label: 'Maximum', description: 'Hours of the longest period' },
    sdHours: { label: 'Standard deviation', description: 'Of the hours a GPU stayed free' },
    gpuHours: { label: 'GPU hours', description: 'Hours of all complete periods together' },
    censored: { label: 'Censored', description: 'Periods whose end was not seen' },
    unknownStart: { label: 'Unknown start', description: 'Periods whose beginning was not seen' },
    kmMedianHours: { label: 'Kaplan–Meier median', description: 'Median hours, unfinished periods counted in' },
    restrictedMeanHours: { label: 'Restricted mean', description: 'Mean hours up to the longest period' },
    ...backfillState,
    ended: { label: 'Ended', description: 'Periods that ended' },
    hours90: { label: '90 % keep it for', description: 'Hours that 90 % of GPUs can be kept' },
    hours75: { label: '75 % keep it for', description: 'Hours that 75 % of GPUs can be kept' },
    hours50: { label: '50 % keep it for', description: 'Hours that 50 % of GPUs can be kept' },
    ...survival,
  },
  evictions: {
    runs: { label: 'Runs', description: 'Runs of backfill jobs' },
    evictions: { label: 'Evictions', description: 'Runs that were evicted' },
    completed: { label: 'Completed' },
    removed: { label: 'Removed' },
    held: { label: 'Held' },
    running: { label: 'Running', description: 'Runs that go on after the time range' },
    lost: { label: 'Lost', description: 'Runs that a gap in the data hides' },
    ambiguous: { label: 'Ambiguous', description: 'Ended without evidence how' },
    gpuHours: { label: 'GPU hours', description: 'That backfill jobs held' },
    ratePer100GpuHours: { label: 'Evictions per 100 GPU hours', description: 'Of backfill jobs' },
    rateLow: { label: 'Rate, 95 % low', description: 'Lower bound of the 95 % interval' },
    rateHigh: { label: 'Rate, 95 % high', description: 'Upper bound of the 95 % interval' },
    evictedPercent: { label: 'Evicted %', description: 'Evicted of all runs whose end is known' },
    medianHoursToEviction: { label: 'Median to eviction', description: 'Hours, of evicted runs' },
    lostGpuHours: { label: 'Lost GPU hours', description: 'GPU hours of evicted runs' },
    lostPercent: { label: 'Lost %', description: 'Lost of all backfill GPU hours' },
    ...survival,
  },
};

export const filterLabels: Record<FilterField | 'idle', Label> = {
  categories: { label: 'Categories', description: 'Real and backfill slots by the ownership of their machines' },
  slots: { label: 'Slots', description: 'Real slots, or backfill slots' },
  devices: { label: 'Devices', description: 'Models of GPUs' },
  machines: { label: 'Machines', description: 'Names of machines, as the pool reports them' },
  ownerships: { label: 'Ownership', description: 'Of machines: researcher owned, CHTC owned or open capacity' },
  projects: { label: 'Projects', description: 'Projects with priority on the machine' },
  users: { label: 'Users', description: 'Who holds the GPUs' },
  idle: { label: 'Idle only', description: 'Only machines on which nothing was claimed on primary slots' },
};

export const dimensionLabels: Record<string, Label> = {
  category: { label: 'Categories' },
  slots: { label: 'Slots', description: 'Real or backfill' },
  device: { label: 'Devices', description: 'Models of GPUs' },
  machine: { label: 'Machines' },
  ownership: { label: 'Ownerships' },
  project: { label: 'Projects' },
  user: { label: 'Users' },
  memory: { label: 'Memory', description: 'Classes of GPU memory' },
};

/** The panels that draw a shape of answers. */
export const panelLabels: Record<ViewSpec['frame'], Label> = {
  'timeseries-multi': { label: 'Time series' },
  table: { label: 'Table' },
  'state-timeline': { label: 'State timeline' },
  survival: { label: 'Trend' },
  'heatmap-cells': { label: 'Heat map' },
};

export const durationLabels: Record<string, Label> = {
  tenure: { label: 'Tenure', description: 'How long a GPU stays in the backfill pool, used or free' },
  vacancy: { label: 'Vacancy', description: 'How long a GPU stays free' },
};

export const bucketLabels: Record<string, Label> = {
  auto: { label: 'Auto', description: 'Fits the panel; the whole time range in alert rules' },
  window: { label: 'Whole range', description: 'One value for the time range' },
};

/** The words of a list as options of a Combobox, in the list's order; a word without a label stands for itself. */
export function optionsOf(names: string[], labels: Record<string, Label>): Array<Label & { value: string }> {
  return names.map((name) => ({ value: name, ...(labels[name] ?? { label: name }) }));
}
