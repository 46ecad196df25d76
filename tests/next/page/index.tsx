import { createTheme, DataSourceApi, LoadingState, ThemeContext } from '@grafana/data';
import { getDataSourceSrv } from '@grafana/runtime';
import {
  AdHocFiltersVariable,
  AdHocFilterWithLabels,
  ControlsLayout,
  CustomVariable,
  DataSourceVariable,
  EmbeddedScene,
  GROUP_BY_OPERATOR,
  QueryVariable,
  SceneComponentProps,
  SceneDataQuery,
  sceneGraph,
  SceneObjectBase,
  SceneObjectState,
  SceneQueryRunner,
  SceneTimeRange,
  SceneTimeRangeCompare,
  SceneVariable,
  SceneVariableSet,
  TextBoxVariable,
  VariableValueSelectors,
} from '@grafana/scenes';
import { GlobalStyles, PortalContainer } from '@grafana/ui';
import React from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom';

import { activate, provideGrafana, settings } from './grafana';

/**
 * A stand-in for Grafana 13: a shipped dashboard as a scene, with the built plugin behind it. Grafana's own panels are not
 * in its packages: each panel shows its state, and the names and units of its answer. The address says what:
 * ?dashboard=users &groupBy=device,project &filter=devices|=~|H200 &compare=1w &from=now-24h
 * It runs on the packages of Grafana 12.4, too, as far as these have the parts.
 */
const address = new URLSearchParams(window.location.search);

interface Model {
  uid: string;
  panels: PanelModel[];
  templating: { list: VariableModel[] };
  time: { from: string; to: string };
}

interface PanelModel {
  id: number;
  type: string;
  title?: string;
  targets?: SceneDataQuery[];
  panels?: PanelModel[];
}

interface VariableModel {
  type: string;
  name: string;
  label?: string;
  query: string | SceneDataQuery;
  includeAll?: boolean;
  multi?: boolean;
  allValue?: string | null;
  enableGroupBy?: boolean;
  current?: { text?: string | string[]; value?: string | string[] };
}

interface PanelState extends SceneObjectState {
  title: string;
  type: string;
  $data: SceneQueryRunner;
}

/** A panel that says what it was answered. */
class Panel extends SceneObjectBase<PanelState> {
  static readonly Component = ({ model }: SceneComponentProps<Panel>) => {
    const { title, type, $data } = model.useState();
    const { data } = $data.useState();
    const fields = (data?.series ?? []).flatMap((frame) =>
      frame.fields.map(({ name, config, labels }) => ({
        frame: frame.refId,
        name: config.displayName ?? config.displayNameFromDS ?? name,
        unit: config.unit,
        color: config.color?.fixedColor,
        labels,
      }))
    );
    const notices = (data?.series ?? []).flatMap(({ meta }) => meta?.notices ?? []);
    return (
      <section aria-label={sceneGraph.interpolate(model, title)} data-type={type} data-state={data?.state ?? 'none'}>
        <h2>{sceneGraph.interpolate(model, title)}</h2>
        {data?.state === LoadingState.Error && (
          <p role="alert">{(data.errors ?? []).map(({ message }) => message).join(' ')}</p>
        )}
        <output aria-label="Fields">{JSON.stringify(fields)}</output>
        <output aria-label="Notices">{JSON.stringify(notices)}</output>
      </section>
    );
  };
}

class Panels extends SceneObjectBase<SceneObjectState & { panels: Panel[] }> {
  static readonly Component = ({ model }: SceneComponentProps<Panels>) =>
    model.useState().panels.map((panel) => <panel.Component key={panel.state.key} model={panel} />);
}

const datasource = { type: settings.type, uid: '${datasource}' };

function variableOf(model: VariableModel): SceneVariable {
  const { type, name, label, query, includeAll, multi, allValue, enableGroupBy, current = {} } = model;
  const common = { name, label, value: current.value ?? '', text: current.text ?? '' };
  const several = { ...common, includeAll, isMulti: multi, allValue: allValue ?? undefined };
  switch (type) {
    case 'datasource':
      return new DataSourceVariable({ name, label, pluginId: String(query), value: settings.uid, text: settings.name });
    case 'query':
      return new QueryVariable({ ...several, datasource, query, refresh: 2 });
    case 'custom':
      return new CustomVariable({ ...several, query: String(query) });
    case 'adhoc':
      return new AdHocFiltersVariable({
        name,
        label,
        datasource,
        applyMode: 'auto',
        filters: chosen(),
        enableGroupBy,
        applicabilityEnabled: true,
        drilldownRecommendationsEnabled: true,
        useQueriesAsFilterForOptions: true,
      });
    case 'textbox':
      return new TextBoxVariable({ name, label, value: String(current.value ?? '') });
    default:
      throw new Error(`This page has no variables of the type ${type}.`);
  }
}

/** The filters and groupings that the address chooses. */
function chosen(): AdHocFilterWithLabels[] {
  const filters = address.getAll('filter').map((text) => {
    const [key, operator, value] = text.split('|');
    return { key, operator, value };
  });
  const groupBy = address.get('groupBy')?.split(',') ?? [];
  return [...filters, ...groupBy.map((key) => ({ key, operator: GROUP_BY_OPERATOR, value: '' }))];
}

function sceneOf({ panels, templating, time }: Model): EmbeddedScene {
  const all = panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]).filter(({ targets }) => targets?.length);
  return new EmbeddedScene({
    $timeRange: new SceneTimeRange({ from: address.get('from') ?? time.from, to: address.get('to') ?? time.to }),
    $variables: new SceneVariableSet({ variables: templating.list.map(variableOf) }),
    controls: [
      new VariableValueSelectors({ layout: 'horizontal' as ControlsLayout }),
      new SceneTimeRangeCompare({ compareWith: address.get('compare') ?? undefined }),
    ],
    body: new Panels({
      panels: all.map(
        ({ id, title = '', type, targets = [] }) =>
          new Panel({
            key: `panel-${id}`,
            title,
            type,
            $data: new SceneQueryRunner({ datasource, queries: targets, maxDataPoints: 500 }),
          })
      ),
    }),
  });
}

/** The filters and groupings of the dashboard, with those that do not apply. */
function Chosen({ scene }: { scene: EmbeddedScene }) {
  const { filters } = (sceneGraph.lookupVariable('filters', scene) as AdHocFiltersVariable).useState();
  return <output aria-label="Chosen">{JSON.stringify(filters)}</output>;
}

/** What the data source offers to dashboards, by method. */
async function offered(source: DataSourceApi) {
  return {
    links: await source.getDefaultLinks?.(),
    keys: await source.getGroupByKeys?.(),
    recommended: await source.getRecommendedDrilldowns?.({}),
  };
}

async function open(): Promise<void> {
  const response = await fetch(`/dashboards/${address.get('dashboard')}.json`);
  const model: Model = await response.json();
  await provideGrafana([model.uid]);
  const scene = sceneOf(model);
  activate(scene);
  const offers = await offered(await getDataSourceSrv().get());
  createRoot(document.getElementById('root')!).render(
    <MemoryRouter>
      <ThemeContext.Provider value={createTheme()}>
        <GlobalStyles />
        <output aria-label="Offered">{JSON.stringify(offers)}</output>
        <scene.Component model={scene} />
        <Chosen scene={scene} />
        <PortalContainer />
      </ThemeContext.Provider>
    </MemoryRouter>
  );
}

open().catch((error: Error) => {
  document.getElementById('root')!.textContent = `FAILED ${error.message}`;
});
