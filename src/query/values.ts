import { DataSourceApi, dateTime, MetricFindValue, ScopedVars, TimeRange } from '@grafana/data';

import { GpuSettings, Mode } from '../settings';
import { GpuQuery, QueryFilter, VariableQuery } from './types';

/** Where editors and variables get the values that a filter can take. */
export interface ValueSource {
  /**
   * The values of a dimension in the pool, under a filter and in a time range (without one: the newest week).
   * Variables are filled in; entries that cannot be used, a broken pattern or an unknown variable, are left out.
   */
  values(
    dimension: string,
    filter?: QueryFilter,
    range?: TimeRange,
    scopedVars?: ScopedVars
  ): Promise<MetricFindValue[]>;

  /** References to the dashboard's variables that can stand in a filter; not to the variable that is being edited. */
  variableReferences(edited?: VariableQuery): string[];
}

/** A range with at least its last day: that of a new alert rule, ten minutes, can be without a snapshot. */
export function atLeastADay(range: TimeRange | undefined): TimeRange | undefined {
  return range && range.to.diff(range.from, 'hours') < 24
    ? { ...range, from: dateTime(range.to).subtract(1, 'day') }
    : range;
}

/** The data source as its editors see it. */
export interface GpuSource extends DataSourceApi<GpuQuery, GpuSettings>, ValueSource {
  readonly mode: Mode;
  /** Length of a slice in minutes; 0: every snapshot is its own. */
  readonly sliceMinutes: number;
}
