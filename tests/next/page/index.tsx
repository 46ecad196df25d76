import { createTheme, DataSourceApi, LoadingState, ThemeContext } from '@grafana/data';
import { getDataSourceSrv } from '@grafana/runtime';
import {
  AdHocFiltersVariable,
  ControlsLayout,
  CustomVariable,
  DataSourceVariable,
  EmbeddedScene,
  GroupByVariable,
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
  current: { text?: string | string[]; value?: string | string[] };
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

function variableOf({ type, name, label, query, includeAll, multi, allValue, current }: VariableModel): SceneVariable {
  const common = { name, label, value: current.value ?? '', text: current.text ?? '' };
  const several = { ...common, includeAll, isMulti: multi, allValue: allValue ?? undefined };
  switch (type) {
    case 'datasource':
      return new DataSourceVariable({ name, label, pluginId: String(query), value: settings.uid, text: settings.name });
    case 'query':
      return new QueryVariable({ ...several, datasource, query, refresh: 2 });
    case 'custom':
      return new CustomVariable({ ...several, query: String(query) });
    case 'textbox':
      return new TextBoxVariable({ name, label, value: String(current.value ?? '') });
    default:
      throw new Error(`This page has no variables of the type ${type}.`);
  }
}

/** What the address chooses besides the dashboard's own variables. */
function chosen(): SceneVariable[] {
  const filters = address.getAll('filter').map((text) => {
    const [key, operator, value] = text.split('|');
    return { key, operator, value };
  });
  const groupBy = address.get('groupBy')?.split(',') ?? [];
  return [
    new AdHocFiltersVariable({ name: 'filters', datasource, applyMode: 'auto', filters, applicabilityEnabled: true }),
    new GroupByVariable({
      name: 'groupby',
      datasource,
      value: groupBy,
      text: groupBy,
      applicabilityEnabled: true,
      drilldownRecommendationsEnabled: true,
    }),
  ];
}

function sceneOf({ panels, templating, time }: Model): EmbeddedScene {
  const all = panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]).filter(({ targets }) => targets?.length);
  return new EmbeddedScene({
    $timeRange: new SceneTimeRange({ from: address.get('from') ?? time.from, to: address.get('to') ?? time.to }),
    $variables: new SceneVariableSet({ variables: [...templating.list.map(variableOf), ...chosen()] }),
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
        <PortalContainer />
      </ThemeContext.Provider>
    </MemoryRouter>
  );
}

open().catch((error: Error) => {
  document.getElementById('root')!.textContent = `FAILED ${error.message}`;
});
