import {
  AnnotationQuery,
  AnnotationSupport,
  CoreApp,
  DataSourceInstanceSettings,
  MetricFindValue,
  ScopedVars,
  TimeRange,
} from '@grafana/data';
import { DataSourceWithBackend, getTemplateSrv, TemplateSrv } from '@grafana/runtime';

import { defaultAnnotationQuery, defaultQuery, fitFilter } from './query/defaults';
import { hasVariable, interpolate, interpolateFilter } from './query/interpolate';
import { filterFields } from './query/kinds';
import { migrate } from './query/migration';
import { GpuQuery, QueryFilter } from './query/types';
import { isComplete } from './query/validation';
import { GpuSettings } from './settings';
import { templateVariables } from './templateVariables';
import { GpuVariables } from './variables';

export class DataSource extends DataSourceWithBackend<GpuQuery, GpuSettings> {
  annotations: AnnotationSupport<GpuQuery> = {
    getDefaultQuery: () => defaultAnnotationQuery,
    // Grafana shows a new annotation's default query, but runs and stores only what the annotation holds.
    prepareAnnotation: (annotation: AnnotationQuery<GpuQuery>) =>
      annotation.target?.queryType
        ? annotation
        : { ...annotation, target: { refId: 'Anno', ...annotation.target, ...defaultAnnotationQuery } },
  };

  constructor(
    settings: DataSourceInstanceSettings<GpuSettings>,
    private readonly templateSrv: TemplateSrv = getTemplateSrv()
  ) {
    super(settings);
    this.variables = new GpuVariables(this);
  }

  getDefaultQuery(_: CoreApp): Partial<GpuQuery> {
    return defaultQuery;
  }

  filterQuery(query: GpuQuery): boolean {
    return isComplete(query);
  }

  applyTemplateVariables(query: GpuQuery, scopedVars: ScopedVars): GpuQuery {
    return interpolate(migrate(query), templateVariables(this.templateSrv, scopedVars));
  }

  /**
   * The values of a dimension in the pool, under a filter and in a time range (without one: the newest week).
   * Variables are filled in; entries with variables that do not exist here are left out, as in an alert rule's editor.
   */
  async values(
    dimension: string,
    filter: QueryFilter = {},
    range?: TimeRange,
    scopedVars: ScopedVars = {}
  ): Promise<MetricFindValue[]> {
    const filled = interpolateFilter(filter, templateVariables(this.templateSrv, scopedVars));
    for (const field of filterFields) {
      filled[field] = filled[field]?.filter((value) => !hasVariable(value));
    }
    const fitted = fitFilter(filled, filterFields);
    return this.getResource<MetricFindValue[]>(`values/${dimension}`, {
      ...(fitted && { filter: JSON.stringify(fitted) }),
      ...(range && { from: range.from.valueOf(), to: range.to.valueOf() }),
    });
  }

  /** References to the dashboard's variables, to be offered among the values of filters. */
  variableReferences(): string[] {
    return this.templateSrv.getVariables().map(({ name }) => '$' + name);
  }
}
