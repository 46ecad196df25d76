import React, { useState, useSyncExternalStore } from 'react';
import {
  AnnotationQuery,
  CoreApp,
  createTheme,
  DataSourceInstanceSettings,
  DataSourceSettings,
  dateTime,
  LoadingState,
  PanelData,
  ThemeContext,
  TimeRange,
} from '@grafana/data';
import { Button, GlobalStyles, PortalContainer } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

import { DataSource } from '../../../src/datasource';
import { ConfigEditor } from '../../../src/editors/ConfigEditor';
import { QueryEditor } from '../../../src/editors/QueryEditor';
import { VariableQueryEditor } from '../../../src/editors/VariableQueryEditor';
import { GpuQuery, VariableQuery } from '../../../src/query/types';
import { GpuSettings } from '../../../src/settings';
import { Answer } from './Answer';
import { provideGrafana, templateSrvOf } from './grafana';

/**
 * The editors as Grafana holds them. The address says which, and with what:
 * ?editor=query|annotation|variable|config &app=… &query=JSON &settings=JSON &variables=JSON &adHoc=JSON &from=ms &to=ms
 */
const address = new URLSearchParams(window.location.search);
const given = <T,>(name: string, otherwise: T): T => (address.has(name) ? JSON.parse(address.get(name)!) : otherwise);

provideGrafana();
const datasource = new DataSource(
  {
    uid: 'gpu',
    name: 'GPU Reports',
    type: 'chtc-gpureports-datasource',
    access: 'proxy',
    readOnly: false,
    jsonData: given<Partial<DataSourceSettings<GpuSettings>>>('settings', {}).jsonData ?? {},
    meta: { id: 'chtc-gpureports-datasource', info: {} },
  } as DataSourceInstanceSettings<GpuSettings>,
  templateSrvOf(given('variables', {}))
);

const to = Number(address.get('to') ?? Date.now());
const from = Number(address.get('from') ?? to - 24 * 3600 * 1000);
const range: TimeRange = {
  from: dateTime(from),
  to: dateTime(to),
  raw: { from: dateTime(from), to: dateTime(to) },
};
const nothing: PanelData = { state: LoadingState.NotStarted, series: [], timeRange: range };

const app = (address.get('app') ?? CoreApp.PanelEditor) as CoreApp;

/** The query as Grafana holds it: the editor renders at once, as in Explore; alert rules merge an edit into what is stored. */
const held = {
  query: { refId: 'A', ...given('query', {}) } as GpuQuery,
  renderHolder: () => {},
  subscribe: (listener: () => void) => {
    held.renderHolder = listener;
    return () => {};
  },
  change: (changed: GpuQuery) => {
    held.query = { ...(app === CoreApp.UnifiedAlerting && held.query), ...changed };
    held.renderHolder();
  },
};

function QueryPage({ annotation }: { annotation?: AnnotationQuery<GpuQuery> }) {
  const query = useSyncExternalStore(held.subscribe, () => held.query);
  const [data, setData] = useState(nothing);

  const run = () => {
    setData((before) => ({ ...before, state: LoadingState.Loading })); // or an answer to the query before seems to be its
    datasource
      .query({
        requestId: 'Q1',
        app,
        targets: [held.query].filter((target) => datasource.filterQuery(target)),
        range,
        interval: '1m',
        intervalMs: 60_000,
        maxDataPoints: 1000,
        scopedVars: {},
        filters: given('adHoc', []),
        timezone: 'utc',
        startTime: Date.now(),
      })
      .subscribe(({ data: series, errors, state = LoadingState.Done }) =>
        setData({ state, series, errors, timeRange: range })
      );
  };

  return (
    <>
      <QueryEditor
        datasource={datasource}
        query={query}
        onChange={held.change}
        onRunQuery={run}
        range={range}
        app={app}
        annotation={annotation}
      />
      <Saved value={query} />
      <Answer data={data} range={range} />
    </>
  );
}

function VariablePage() {
  const [query, setQuery] = useState<VariableQuery>({ refId: '', ...given('query', {}) });
  return (
    <>
      <VariableQueryEditor
        datasource={datasource}
        query={query}
        onChange={setQuery}
        onRunQuery={() => {}}
        range={range}
      />
      <Saved value={query} />
    </>
  );
}

function ConfigPage() {
  const [options, setOptions] = useState({
    jsonData: {},
    secureJsonData: {},
    secureJsonFields: {},
    url: '',
    basicAuth: false,
    basicAuthUser: '',
    readOnly: false,
    ...given('settings', {}),
  } as DataSourceSettings<GpuSettings>);
  const [health, setHealth] = useState('');
  return (
    <>
      <ConfigEditor options={options} onOptionsChange={setOptions} />
      <Button onClick={async () => setHealth((await datasource.testDatasource()).message)}>Save &amp; test</Button>
      <output>{health}</output>
      <Saved value={options} />
    </>
  );
}

/** What Grafana would store now. */
function Saved({ value }: { value: unknown }) {
  return <pre aria-label="Saved">{JSON.stringify(value, null, 1)}</pre>;
}

const pages: Record<string, React.ReactNode> = {
  query: <QueryPage />,
  annotation: <QueryPage annotation={{ name: 'Annotation', enable: true, iconColor: 'red' }} />,
  variable: <VariablePage />,
  config: <ConfigPage />,
};

createRoot(document.getElementById('root')!).render(
  <ThemeContext.Provider value={createTheme({ colors: { mode: address.get('theme') === 'dark' ? 'dark' : 'light' } })}>
    <GlobalStyles />
    <PortalContainer />
    <main style={{ padding: 16, maxWidth: 1200 }}>{pages[address.get('editor') ?? 'query']}</main>
  </ThemeContext.Provider>
);
