import { DataQuery } from '@grafana/schema';

import type schema from './schema.json';

/**
 * Which GPUs, machines, projects and users a query looks at. An empty or missing list means all.
 * Entries are exact values, `/RE2 patterns/`, or dashboard variables, with a leading `!` what to leave out; some fields
 * take the words of a closed set.
 */
export interface QueryFilter extends Partial<Record<FilterField, string[]>> {
  /** allocation/machines only: machines on which nothing was claimed on primary slots. */
  idle?: boolean;
}

/** The fields of a filter that are lists. */
export type FilterField = Exclude<keyof typeof schema.filters, 'idle'>;

/** The query as it is stored in dashboards and alert rules and read by the backend: names equal Go's JSON tags. */
export interface GpuQuery extends DataQuery {
  /** The kind of question, a key of schema.json's kinds. */
  queryType?: string;
  view?: string;
  /** Missing means the kind's default, an empty list means no grouping. */
  groupBy?: string[];
  /** Missing or empty means the view's default metrics. */
  metrics?: string[];
  filter?: QueryFilter;
  /** Missing means `auto`. */
  bucket?: string;
  /** IANA name for calendar buckets and hours of the week; missing or empty means the data source's zone. */
  timezone?: string;
  completeBucketsOnly?: boolean;
  /** Missing means true. */
  includeOldDevices?: boolean;
  /** Total rows of a table; missing means: unless exactly one metric is named. */
  totals?: boolean;
  /** Answers for the period of the same length before the time range. */
  previous?: boolean;
  /** Answers for this long up to now, such as `2d`, whatever the time range; missing or empty means for the time range. */
  last?: string;
  /** The measure of survival curves and periods. */
  duration?: string;
  /** Lengths of jobs, in hours, or dashboard variables; missing or empty means the view's own. */
  jobHours?: Array<number | string>;
  /** The cost of one checkpoint; missing means the backend's default. */
  overheadMinutes?: number;
  /** The time of withinPercent; missing means the backend's default. */
  withinMinutes?: number;
  /** The time within which a run fails at once; missing means the backend's default. */
  shortMinutes?: number;
  /** Names of series, with `{{device}}` and the like for what the series are of; missing means the backend's names. */
  legend?: string;
  /** Most series, rows or users; missing or 0 means the backend's default for the view. */
  limit?: number;
  /** The whole query as a text, for new alert rules (carried.ts); never stored by the editor. */
  expression?: string;
  version?: number;
}

/** The query behind a dashboard variable: the values of one dimension. */
export interface VariableQuery extends DataQuery {
  /** One of schema.json's dimensions. */
  dimension?: string;
  filter?: QueryFilter;
  /** The variable in words: its definition in Grafana's list of variables. */
  query?: string;
}
