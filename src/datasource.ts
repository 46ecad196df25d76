import {
  AnnotationQuery,
  AnnotationSupport,
  CoreApp,
  DataSourceInstanceSettings,
  MetricFindValue,
  ScopedVars,
  TimeRange,
  TypedVariableModel,
} from '@grafana/data';
import { DataSourceWithBackend, getTemplateSrv, TemplateSrv } from '@grafana/runtime';

import { defaultAnnotationQuery, defaultQuery, fitFilter } from './query/defaults';
import { isUsable } from './query/entries';
import { hasVariable, interpolate, interpolateFilter } from './query/interpolate';
import { filterFields } from './query/kinds';
import { migrate } from './query/migration';
import { GpuQuery, QueryFilter, VariableQuery } from './query/types';
import { isComplete } from './query/validation';
import { GpuSource } from './query/values';
import { GpuSettings, settingDefaults } from './settings';
import { templateVariables } from './templateVariables';
import { GpuVariables } from './variables';

/** Types of variables whose values can stand in a filter. */
const withValues: Array<TypedVariableModel['type']> = ['query', 'custom', 'textbox', 'constant'];

export class DataSource extends DataSourceWithBackend<GpuQuery, GpuSettings> implements GpuSource {
  readonly sliceMinutes: number;

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
    this.sliceMinutes = settings.jsonData.sliceMinutes ?? settingDefaults.sliceMinutes;
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

  async values(
    dimension: string,
    filter: QueryFilter = {},
    range?: TimeRange,
    scopedVars: ScopedVars = {}
  ): Promise<MetricFindValue[]> {
    const filled = interpolateFilter(filter, templateVariables(this.templateSrv, scopedVars));
    for (const field of filterFields) {
      filled[field] = filled[field]?.filter((value) => !hasVariable(value) && isUsable(value));
    }
    const fitted = fitFilter(filled, filterFields);
    const parameters = {
      ...(fitted && { filter: JSON.stringify(fitted) }),
      ...(range && { from: range.from.valueOf(), to: range.to.valueOf() }),
    };
    // Who asks says what went wrong where it was asked.
    return this.getResource<MetricFindValue[]>(`values/${dimension}`, parameters, { showErrorAlert: false });
  }

  variableReferences(edited?: VariableQuery): string[] {
    const isEdited = (variable: TypedVariableModel) =>
      edited !== undefined && 'query' in variable && JSON.stringify(variable.query) === JSON.stringify(edited);
    return this.templateSrv
      .getVariables()
      .filter((variable) => withValues.includes(variable.type) && !isEdited(variable))
      .map(({ name }) => '$' + name);
  }
}
