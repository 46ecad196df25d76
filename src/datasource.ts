import {
  AnnotationQuery,
  AnnotationSupport,
  AdHocVariableFilter,
  CoreApp,
  DataQueryError,
  DataQueryRequest,
  DataQueryResponse,
  DataSourceGetDrilldownsApplicabilityOptions,
  DataSourceGetRecommendedDrilldownsOptions,
  DataSourceGetTagKeysOptions,
  DataSourceGetTagValuesOptions,
  DataSourceInstanceSettings,
  DrilldownRecommendation,
  DrilldownsApplicability,
  FieldType,
  MetricFindValue,
  QueryFilterOptions,
  QueryFixAction,
  ScopedVars,
  TimeRange,
  ToggleFilterAction,
  TypedVariableModel,
} from '@grafana/data';
import { DataSourceWithBackend, getTemplateSrv, HealthCheckResult, TemplateSrv } from '@grafana/runtime';
import { from, map, mergeMap, Observable, of } from 'rxjs';

import { defaultLinks, hasLinks, installedDashboards, keepLinksTo } from './dashboardLinks';
import { queryTexts, withSettingLabels } from './labels';
import {
  fieldOf,
  filtered,
  filtersApplicability,
  hasFilter,
  narrowed,
  toggled,
  unusedFields,
  withAdHocFilters,
} from './query/adhoc';
import { carrying } from './query/carried';
import { withNameColors } from './query/colors';
import { defaultAnnotationQuery, defaultQuery, fitFilter } from './query/defaults';
import { describe } from './query/describe';
import { isUsable } from './query/entries';
import { groupByKeys, keysApplicability, recommendedKeys, regrouped } from './query/groupBy';
import { hasVariable, interpolate, interpolateFilter } from './query/interpolate';
import { commonFields, dimensionOf, filterFields, viewOf, ViewSpec } from './query/kinds';
import { filterLabels } from './query/labels';
import { withOneNotice } from './query/notices';
import { GpuQuery, QueryFilter, VariableQuery } from './query/types';
import { isComplete } from './query/validation';
import { GpuSource } from './query/values';
import { GpuSettings, Mode, settingDefaults } from './settings';
import { templateVariables } from './templateVariables';
import { GpuVariables } from './variables';

/** The length of a fact: an hour. */
const factMinutes = 60;

/** Types of variables whose values can stand in a filter. */
const withValues: Array<TypedVariableModel['type']> = ['query', 'custom', 'textbox', 'constant'];

export class DataSource extends DataSourceWithBackend<GpuQuery, GpuSettings> implements GpuSource {
  readonly mode: Mode;
  readonly sliceMinutes: number;
  private dashboards?: Promise<Set<string>>;

  annotations: AnnotationSupport<GpuQuery> = {
    getDefaultQuery: () => defaultAnnotationQuery,
    // Grafana shows a new annotation's default query, but runs and stores only the annotation's own query.
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
    const { mode, sliceMinutes } = settings.jsonData;
    this.mode = mode || settingDefaults.mode;
    this.sliceMinutes = this.mode === 'fleet' ? factMinutes : (sliceMinutes ?? settingDefaults.sliceMinutes);
    this.variables = new GpuVariables(this);
  }

  getDefaultQuery(_: CoreApp): Partial<GpuQuery> {
    return defaultQuery;
  }

  query(request: DataQueryRequest<GpuQuery>): Observable<DataQueryResponse> {
    const grouped = request.targets.map((target) => regrouped(target, request.groupByKeys ?? [], this.mode));
    const targets = request.app === CoreApp.Explore ? grouped.map(fewTimelines) : grouped;
    const { sound, errors } = this.checked(targets, request);
    const answers: Observable<DataQueryResponse> =
      errors.length > 0 && sound.length === 0 ? of({ data: [] }) : super.query({ ...request, targets: sound });
    return answers.pipe(
      map((response) => (errors.length ? { ...response, errors: [...(response.errors ?? []), ...errors] } : response)),
      map((response) => withoutData(response, request.targets, this.mode)),
      map((response) => sayingUnused(response, request, this.mode)),
      map((response) => ({ ...response, data: withOneNotice(withNameColors(response.data)) })),
      map((response) =>
        request.app === CoreApp.Explore ? forExplore(response, request.targets, this.mode) : response
      ),
      mergeMap((response) => (hasLinks(response) ? from(this.linked(response)) : of(response)))
    );
  }

  /**
   * The targets that the dashboard's variables and filters fit, and the errors of the others: Grafana would answer none of
   * the targets if one of them could not be filled in.
   */
  private checked(targets: GpuQuery[], { scopedVars, filters }: DataQueryRequest<GpuQuery>) {
    const errors: DataQueryError[] = [];
    const sound = targets.filter((target) => {
      try {
        this.applyTemplateVariables(target, scopedVars, filters);
        return true;
      } catch (error) {
        errors.push({ refId: target.refId, message: error instanceof Error ? error.message : String(error) });
        return false;
      }
    });
    return { sound, errors };
  }

  private installed(): Promise<Set<string>> {
    this.dashboards ??= installedDashboards().catch(() => new Set());
    return this.dashboards;
  }

  /** The answers with those of their links that lead somewhere; the existing dashboards are requested once per page. */
  private async linked(response: DataQueryResponse): Promise<DataQueryResponse> {
    return keepLinksTo(await this.installed(), response);
  }

  async callHealthCheck(): Promise<HealthCheckResult> {
    const result = await super.callHealthCheck();
    return { ...result, message: withSettingLabels(result.message) };
  }

  filterQuery(query: GpuQuery): boolean {
    return isComplete(query);
  }

  applyTemplateVariables(query: GpuQuery, scopedVars: ScopedVars, filters: AdHocVariableFilter[] = []): GpuQuery {
    const filled = interpolate(query, templateVariables(this.templateSrv, scopedVars));
    return withAdHocFilters(filled, filters, this.mode);
  }

  /** The queries for other pages of Grafana, each with itself in a text for those that keep few of its keys. */
  interpolateVariablesInQueries(
    queries: GpuQuery[],
    scopedVars: ScopedVars,
    filters?: AdHocVariableFilter[]
  ): GpuQuery[] {
    return super.interpolateVariablesInQueries(queries, scopedVars, filters).map(carrying);
  }

  /** The name of a query in lists, such as Explore's history. */
  getQueryDisplayText(query: GpuQuery): string {
    return describe({ ...defaultQuery, ...query }, this.mode);
  }

  async getTagKeys(): Promise<MetricFindValue[]> {
    return commonFields(this.mode).map((field) => ({ text: filterLabels[field].label, value: field }));
  }

  async getTagValues({ key, filters, timeRange }: DataSourceGetTagValuesOptions<GpuQuery>): Promise<MetricFindValue[]> {
    const field = fieldOf(key);
    const dimension = field && dimensionOf[field];
    const others = filters.filter((filter) => fieldOf(filter.key) !== field);
    return dimension ? this.values(dimension, narrowed({}, others), timeRange) : [];
  }

  /** The groupings of Grafana's "Group by" (13.1 and newer). */
  async getGroupByKeys(options?: DataSourceGetTagKeysOptions<GpuQuery>): Promise<MetricFindValue[]> {
    return groupByKeys(options?.queries, this.mode);
  }

  async getDrilldownsApplicability({
    filters = [],
    groupByKeys: keys = [],
    queries,
  }: DataSourceGetDrilldownsApplicabilityOptions<GpuQuery> = {}): Promise<DrilldownsApplicability[]> {
    return [...filtersApplicability(filters, queries, this.mode), ...keysApplicability(keys, queries, this.mode)];
  }

  async getRecommendedDrilldowns({
    groupByKeys: chosen = [],
    queries,
  }: DataSourceGetRecommendedDrilldownsOptions<GpuQuery> = {}): Promise<DrilldownRecommendation> {
    return { groupByKeys: recommendedKeys(queries, chosen, this.mode) };
  }

  /** Links of dashboards that use the data source (Grafana 13.0 and newer): the plugin's dashboards, if there are any. */
  async getDefaultLinks() {
    return (await this.installed()).size > 0 ? defaultLinks : [];
  }

  getSupportedQueryModifications(): string[] {
    return ['ADD_FILTER', 'ADD_FILTER_OUT'];
  }

  modifyQuery(query: GpuQuery, { type, options }: QueryFixAction): GpuQuery {
    if (!options?.key || !this.getSupportedQueryModifications().includes(type)) {
      return query;
    }
    return filtered(query, { key: options.key, value: options.value }, type === 'ADD_FILTER_OUT', this.mode);
  }

  toggleQueryFilter(query: GpuQuery, { type, options: { key, value } }: ToggleFilterAction): GpuQuery {
    return toggled(query, { key, value }, type === 'FILTER_OUT', this.mode);
  }

  queryHasFilter(query: GpuQuery, { key, value }: QueryFilterOptions): boolean {
    return hasFilter(query, { key, value });
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
    // The caller shows the error in place.
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

/**
 * The answers with what Grafana's panels need to say "No data": heat map and state timeline get no frame instead of one
 * without fields, curves one with their axis.
 */
function withoutData(response: DataQueryResponse, targets: GpuQuery[], mode: Mode): DataQueryResponse {
  const shapes = new Map(targets.map((target) => [target.refId, viewOf(target, mode)?.spec.frame]));
  const data = response.data.flatMap((frame) => {
    const shape = shapes.get(frame.refId);
    if (frame.fields?.length !== 0 || shape === undefined) {
      return [frame];
    }
    if (shape === 'survival') {
      return [{ ...frame, fields: [{ name: 'hours', type: FieldType.number, config: {}, values: [] }] }];
    }
    return shape === 'heatmap-cells' || shape === 'state-timeline' ? [] : [frame];
  });
  return { ...response, data };
}

/** The answers with a notice if the dashboard's ad-hoc filters do not apply to one. */
function sayingUnused(
  response: DataQueryResponse,
  { targets, filters = [] }: DataQueryRequest<GpuQuery>,
  mode: Mode
): DataQueryResponse {
  const unused = new Map(targets.map((target) => [target.refId, unusedFields(target, filters, mode)]));
  const data = response.data.map((frame) => {
    const fields = unused.get(frame.refId) ?? [];
    const text = queryTexts.unusedFilters(fields.map((field) => filterLabels[field].label));
    return fields.length === 0
      ? frame
      : { ...frame, meta: { ...frame.meta, notices: [...(frame.meta?.notices ?? []), { severity: 'info', text }] } };
  });
  return { ...response, data };
}

/** The panels in which Explore draws answers that are neither series nor tables. */
const explorePanels: Partial<Record<ViewSpec['frame'], string>> = {
  'state-timeline': 'state-timeline',
  'heatmap-cells': 'heatmap',
  survival: 'trend',
};

/** The state timelines that Explore can show one below the other: it has no pages. A notice says that there are more. */
const exploreTimelines = 20;

function fewTimelines(query: GpuQuery): GpuQuery {
  return query.view === 'stateTimeline' && !query.limit ? { ...query, limit: exploreTimelines } : query;
}

/** The answers with the panels that Explore draws them with. */
function forExplore(response: DataQueryResponse, targets: GpuQuery[], mode: Mode): DataQueryResponse {
  const panels = new Map(
    targets.map((target) => {
      const frame = viewOf(target, mode)?.spec.frame;
      return [target.refId, frame && explorePanels[frame]];
    })
  );
  const data = response.data.map((frame) => {
    const preferredVisualisationPluginId = panels.get(frame.refId);
    return preferredVisualisationPluginId
      ? { ...frame, meta: { ...frame.meta, preferredVisualisationPluginId } }
      : frame;
  });
  return { ...response, data };
}
