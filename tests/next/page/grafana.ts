import {
  DataFrame,
  DataQueryRequest,
  DataQueryResponse,
  DataSourceApi,
  DataSourceInstanceSettings,
  LoadingState,
  PanelData,
  ScopedVars,
} from '@grafana/data';
import * as data from '@grafana/data';
import * as runtime from '@grafana/runtime';
import * as unstable from '@grafana/runtime/unstable';
import { sceneGraph, SceneObject } from '@grafana/scenes';
import * as ui from '@grafana/ui';
import * as emotion from '@emotion/css';
import * as react from 'react';
import * as rxjs from 'rxjs';

const id = 'chtc-gpureports-datasource';
const modulePath = `/public/plugins/${id}/module.js`;

/** The one data source of this Grafana. */
export const settings = {
  id: 1,
  uid: 'gpu',
  name: 'GPU Reports',
  type: id,
  access: 'proxy',
  readOnly: false,
  isDefault: true,
  jsonData: {},
  meta: { id, name: 'GPU Reports', metrics: true, info: { logos: {} } },
} as unknown as DataSourceInstanceSettings;

/** What the plugin's module asks Grafana for, by name. */
const provided: Record<string, unknown> = {
  '@emotion/css': emotion,
  '@grafana/data': data,
  '@grafana/runtime': runtime,
  '@grafana/ui': ui,
  module: { uri: modulePath },
  react,
  rxjs,
};

type Module = { plugin: { DataSourceClass: new (settings: DataSourceInstanceSettings) => DataSourceApi } };

declare global {
  interface Window {
    define?: unknown;
  }
}

/** Loads the built module.js as Grafana does. */
function loadModule(): Promise<Module> {
  return new Promise((resolve, reject) => {
    const define = (names: string[], factory: (...parts: unknown[]) => Module) => {
      const missing = names.filter((name) => !(name in provided));
      if (missing.length > 0) {
        reject(new Error(`The module asks for ${missing.join(', ')}, which this page does not have.`));
        return;
      }
      resolve(factory(...names.map((name) => provided[name])));
    };
    window.define = Object.assign(define, { amd: {} });
    const script = document.createElement('script');
    script.src = modulePath;
    script.onerror = () => reject(new Error(`${modulePath} is missing: npm run build`));
    document.head.append(script);
  });
}

/** The scene that variables are read from, as in Grafana's template service. */
let active: SceneObject | undefined;

export function activate(scene: SceneObject): void {
  active = scene;
}

/** Gives Grafana's services to the plugin and to scenes. */
export async function provideGrafana(installed: string[]): Promise<void> {
  (unstable as Partial<typeof unstable>).initializeLoggersRegistry?.(); // 13
  runtime.setBackendSrv({
    get: async (url: string) => (url === '/api/search' ? installed.map((uid) => ({ uid })) : []),
    fetch: (request: runtime.BackendSrvRequest) => rxjs.from(send(request)),
  } as unknown as runtime.BackendSrv);
  runtime.setTemplateSrv({
    // As Grafana gives them: `current` holds the selected value, $__all for "All".
    getVariables: () =>
      active ? sceneGraph.getVariables(active).state.variables.map(({ state }) => ({ ...state, current: state })) : [],
    replace: (target = '', scopedVars?: ScopedVars, format?: string | Function) => {
      const scene = (scopedVars?.__sceneObject?.value?.valueOf() as SceneObject | undefined) ?? active;
      return scene ? sceneGraph.interpolate(scene, target, scopedVars, format as string) : target;
    },
    containsTemplate: (target = '') => target.includes('$'),
    updateTimeRange: () => {},
  } as unknown as runtime.TemplateSrv);
  const { plugin } = await loadModule();
  const source = new plugin.DataSourceClass(settings);
  source.meta = settings.meta;
  runtime.setDataSourceSrv({
    get: async () => source,
    getInstanceSettings: () => settings,
    getList: () => [settings],
    reload: () => {},
  } as unknown as runtime.DataSourceSrv);
  runtime.setRunRequest(runRequest as unknown as Parameters<typeof runtime.setRunRequest>[0]);
}

type Ask = (request: DataQueryRequest) => Promise<DataQueryResponse> | rxjs.Observable<DataQueryResponse>;

/** One request of a panel or a variable, as Grafana runs it. */
function runRequest(source: DataSourceApi, request: DataQueryRequest, ask?: Ask): rxjs.Observable<PanelData> {
  const panel = { timeRange: request.range, request };
  return rxjs.from(ask ? ask(request) : source.query(request)).pipe(
    rxjs.map(({ data: frames, errors = [], state }) => ({
      ...panel,
      state: errors.length > 0 ? LoadingState.Error : (state ?? LoadingState.Done),
      series: frames as DataFrame[], // or values of a variable; scenes prepares frames itself
      errors,
    })),
    rxjs.catchError((error: Error) => rxjs.of({ ...panel, state: LoadingState.Error, series: [], errors: [error] })),
    rxjs.startWith({ ...panel, state: LoadingState.Loading, series: [] })
  );
}

async function send({ url, method, params, data: body }: runtime.BackendSrvRequest) {
  const search = new URLSearchParams(Object.entries(params ?? {}).map(([key, value]) => [key, String(value)]));
  const response = await fetch(search.size ? `${url}?${search}` : url, {
    method,
    headers: { 'Content-Type': 'application/json' },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const { ok, status, statusText } = response;
  const result = { ok, status, statusText, data: await response.json(), config: { url } };
  if (!ok) {
    throw result;
  }
  return result;
}
