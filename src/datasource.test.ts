import { CoreApp, DataQueryRequest, dateTime, TimeRange } from '@grafana/data';
import { BackendSrv, DataSourceWithBackend, HealthStatus, setBackendSrv } from '@grafana/runtime';
import { lastValueFrom, of } from 'rxjs';

import { GpuQuery, VariableQuery } from './query/types';
import { defaultAnnotationQuery } from './query/defaults';
import { validate } from './query/validation';
import { testDatasource } from './test/datasource';
import { GpuVariables } from './variables';

const range: TimeRange = {
  from: dateTime(1_000),
  to: dateTime(2_000),
  raw: { from: 'now-1h', to: 'now' },
};

/** Without a toast of Grafana's: the caller shows the error. */
const quietly = { showErrorAlert: false };

describe('DataSource', () => {
  it('begins with a right query, in annotations with evictions', () => {
    const { datasource } = testDatasource();
    expect(validate({ refId: 'A', ...datasource.getDefaultQuery(CoreApp.Explore) })).toEqual([]);
    expect(datasource.annotations.getDefaultQuery?.()).toMatchObject({ queryType: 'evictions', view: 'annotations' });
  });

  it('gives a new annotation its default query, and leaves a stored one alone', () => {
    const { prepareAnnotation } = testDatasource().datasource.annotations;
    const annotation = { name: 'a', enable: true, iconColor: 'red' };
    const prepared = prepareAnnotation?.(annotation);
    expect(prepared).toEqual({ ...annotation, target: { refId: 'Anno', ...defaultAnnotationQuery } });
    expect(prepareAnnotation?.(prepared)).toBe(prepared);
    expect(annotation).not.toHaveProperty('target');
  });

  it('runs only queries with a kind', () => {
    const { datasource } = testDatasource();
    expect(datasource.filterQuery({ refId: 'A' })).toBe(false);
    expect(datasource.filterQuery({ refId: 'A', queryType: 'allocation' })).toBe(true);
  });

  it('answers grouped as the dashboard says', async () => {
    const { datasource } = testDatasource();
    const query = jest.spyOn(DataSourceWithBackend.prototype, 'query').mockReturnValue(of({ data: [] }));
    const targets = [
      { refId: 'A', queryType: 'userHours', view: 'summary', groupBy: ['category'] },
      { refId: 'B', queryType: 'allocation', view: 'current' },
    ];
    const request = {
      targets,
      range,
      scopedVars: {},
      groupByKeys: ['device'],
    } as unknown as DataQueryRequest<GpuQuery>;
    await lastValueFrom(datasource.query(request));
    expect(query).toHaveBeenCalledWith(
      expect.objectContaining({ targets: [{ ...targets[0], groupBy: ['device'] }, targets[1]] })
    );
    query.mockRestore();
  });

  it('says which filters and groupings apply', async () => {
    const { datasource } = testDatasource();
    const queries = [{ refId: 'A', queryType: 'demand', view: 'summary' }];
    const filters = ['users', 'machine'].map((key) => ({ key, operator: '=', value: 'x' }));
    expect(
      await datasource.getDrilldownsApplicability({ queries, filters, groupByKeys: ['project', 'device'] })
    ).toEqual([
      { key: 'users', applicable: true },
      { key: 'machine', applicable: false, reason: 'These figures cannot be filtered by Machines.' },
      { key: 'project', applicable: true },
      { key: 'device', applicable: false, reason: 'These figures cannot be grouped by Device.' },
    ]);
    expect(await datasource.getRecommendedDrilldowns({ queries })).toEqual({ groupByKeys: ['project', 'user'] });
    expect((await datasource.getGroupByKeys({ queries, filters: [] })).map(({ value }) => value)).toContain('schedd');
  });

  it.each([
    [[{ uid: 'gpu-users' }], 1],
    [[], 0],
  ])('links dashboards to those of the plugin, if there are any', async (found, links) => {
    setBackendSrv({ get: async () => found } as unknown as BackendSrv);
    const { datasource } = testDatasource();
    const given = await datasource.getDefaultLinks();
    expect(given).toHaveLength(links);
    given.forEach((link) => expect(link).toMatchObject({ type: 'dashboards', tags: ['gpureports'] }));
  });

  it('fills in variables', () => {
    const { datasource } = testDatasource([{ name: 'd', options: ['x', 'y'], value: ['x', 'y'] }]);
    const query = { refId: 'A', queryType: 'allocation', filter: { devices: ['$d'] } };
    expect(datasource.applyTemplateVariables(query, {}).filter).toEqual({ devices: ['x', 'y'] });
    expect(datasource.applyTemplateVariables(query, { d: { value: 'z' } }).filter).toEqual({ devices: ['z'] });
  });

  it('asks for values under the filter and in the time range', async () => {
    const { datasource, getResource } = testDatasource([{ name: 'm', options: ['a'], value: 'a' }]);
    getResource.mockResolvedValue([{ text: 'H200', value: 'H200' }]);
    const values = await datasource.values('device', { machines: ['$m', '$nowhere'], users: [] }, range);
    expect(values).toEqual([{ text: 'H200', value: 'H200' }]);
    expect(getResource).toHaveBeenCalledWith(
      'values/device',
      { filter: '{"machines":["a"]}', from: 1_000, to: 2_000 },
      quietly
    );
  });

  it('asks for values without the patterns that nothing can match', async () => {
    const { datasource, getResource } = testDatasource();
    await datasource.values('device', { machines: ['/[/', '/gpu1/'], users: ['/(/'] });
    expect(getResource).toHaveBeenCalledWith('values/device', { filter: '{"machines":["/gpu1/"]}' }, quietly);
  });

  it('leaves out an empty filter and an unknown range', async () => {
    const { datasource, getResource } = testDatasource();
    await datasource.values('user', { users: [] });
    expect(getResource).toHaveBeenCalledWith('values/user', {}, quietly);
  });

  it('names the variables of the dashboard', () => {
    const { datasource } = testDatasource([{ name: 'a', options: [], value: '' }]);
    expect(datasource.variableReferences()).toEqual(['$a']);
  });

  it('names neither data sources and ad-hoc filters, nor the variable that is edited', () => {
    const query = { refId: 'V', dimension: 'device' };
    const { datasource } = testDatasource([
      { name: 'ds', options: [], value: '', type: 'datasource' },
      { name: 'filters', options: [], value: '', type: 'adhoc' },
      { name: 'device', options: [], value: '', type: 'query', query },
      { name: 'machine', options: [], value: '', type: 'query', query: { refId: 'V', dimension: 'machine' } },
    ]);
    expect(datasource.variableReferences({ ...query })).toEqual(['$machine']);
    expect(datasource.variableReferences()).toEqual(['$device', '$machine']);
  });
});

it('hands on what panels can say of answers without data', async () => {
  const { datasource } = testDatasource();
  const targets = [
    { refId: 'cells', queryType: 'evictions', view: 'hourOfWeek' },
    { refId: 'states', queryType: 'allocation', view: 'stateTimeline' },
    { refId: 'curve', queryType: 'evictions', view: 'survival' },
    { refId: 'table', queryType: 'evictions', view: 'summary' },
    { refId: 'full', queryType: 'evictions', view: 'hourOfWeek' },
  ];
  const frames = targets.map(({ refId }) => ({ refId, length: 0, fields: refId === 'full' ? [{ name: 'x' }] : [] }));
  const answer = jest.spyOn(DataSourceWithBackend.prototype, 'query').mockReturnValue(of({ data: frames }));
  const { data } = await lastValueFrom(datasource.query({ targets } as DataQueryRequest<GpuQuery>));
  const names = (frame: (typeof data)[0]) => [
    frame.refId,
    ...frame.fields.map((field: { name: string }) => field.name),
  ];
  expect(data.map(names)).toEqual([['curve', 'hours'], ['table'], ['full', 'x']]);
  answer.mockRestore();
});

it('answers the targets that the ad-hoc filters fit, and says why the others have no answer', async () => {
  const { datasource } = testDatasource();
  const query = jest.spyOn(DataSourceWithBackend.prototype, 'query').mockImplementation(() => of({ data: [] }));
  const wide = { refId: 'A', queryType: 'allocation', filter: { machines: ['/gpu/'] } };
  const plain = { refId: 'B', queryType: 'allocation' };
  const filters = [{ key: 'machine', operator: '=~', value: 'gpu1' }];
  const ask = (targets: GpuQuery[]) =>
    lastValueFrom(datasource.query({ targets, scopedVars: {}, filters } as unknown as DataQueryRequest<GpuQuery>));
  const message = "Can't combine the patterns /gpu1/ and /gpu/. Merge them into one.";
  expect((await ask([wide, plain])).errors).toEqual([{ refId: 'A', message }]);
  expect(query).toHaveBeenCalledTimes(1);
  expect(query.mock.calls[0][0].targets).toEqual([plain]);
  expect((await ask([wide])).errors).toEqual([{ refId: 'A', message }]);
  expect(query).toHaveBeenCalledTimes(1);
  expect((await ask([plain])).errors).toBeUndefined();
  query.mockRestore();
});

it('draws in Explore what is neither series nor table with its own panel', async () => {
  const { datasource } = testDatasource();
  const targets = [
    { refId: 'cells', queryType: 'evictions', view: 'hourOfWeek' },
    { refId: 'states', queryType: 'allocation', view: 'stateTimeline' },
    { refId: 'curve', queryType: 'evictions', view: 'survival' },
    { refId: 'table', queryType: 'evictions', view: 'summary' },
  ];
  const frames = targets.map(({ refId }) => ({ refId, length: 0, fields: [{ name: 'x' }] }));
  const answer = jest.spyOn(DataSourceWithBackend.prototype, 'query').mockReturnValue(of({ data: frames }));
  const panels = async (app: CoreApp) => {
    const { data } = await lastValueFrom(datasource.query({ targets, app } as DataQueryRequest<GpuQuery>));
    return data.map((frame) => frame.meta?.preferredVisualisationPluginId);
  };
  expect(await panels(CoreApp.Explore)).toEqual(['heatmap', 'state-timeline', 'trend', undefined]);
  expect(await panels(CoreApp.Dashboard)).toEqual([undefined, undefined, undefined, undefined]);
  const limits = answer.mock.calls.map(([request]) => request.targets.map((target) => (target as GpuQuery).limit));
  expect(limits).toEqual([
    [undefined, 20, undefined, undefined],
    [undefined, undefined, undefined, undefined],
  ]);
  answer.mockRestore();
});

describe('ad-hoc filters', () => {
  const machine = { key: 'machines', operator: '=', value: 'm' };

  it('have the fields of the filter as keys, and their values under the other filters', async () => {
    const { datasource, getResource } = testDatasource();
    expect(await datasource.getTagKeys()).toContainEqual({ text: 'Devices', value: 'devices' });
    await datasource.getTagValues({
      key: 'devices',
      filters: [machine, { ...machine, key: 'devices' }],
      timeRange: range,
    });
    expect(getResource).toHaveBeenCalledWith(
      'values/device',
      { filter: '{"machines":["m"]}', from: 1_000, to: 2_000 },
      quietly
    );
    expect(await datasource.getTagValues({ key: 'cluster', filters: [] })).toEqual([]);
  });

  it('narrow every query', () => {
    const { datasource } = testDatasource([{ name: 'd', options: [], value: ['x', 'y'] }]);
    const query = { refId: 'A', queryType: 'allocation', filter: { devices: ['$d'] } };
    const { filter } = datasource.applyTemplateVariables(query, {}, [
      machine,
      { key: 'device', operator: '=', value: 'x' },
    ]);
    expect(filter).toEqual({ devices: ['x'], machines: ['m'] });
  });

  it('come from cells of tables and from labels, too', () => {
    const { datasource } = testDatasource();
    const query = { refId: 'A', queryType: 'allocation' };
    const options = { key: 'machine', value: 'm' };
    expect(datasource.modifyQuery(query, { type: 'ADD_FILTER_OUT', options }).filter).toEqual({ machines: ['!m'] });
    expect(datasource.modifyQuery(query, { type: 'OTHER', options })).toBe(query);
    const toggled = datasource.toggleQueryFilter(query, { type: 'FILTER_FOR', options });
    expect(datasource.queryHasFilter(toggled, options)).toBe(true);
    expect(datasource.queryHasFilter(query, options)).toBe(false);
  });
});

it('calls settings by the names of the form in what Save & test says', async () => {
  const { datasource } = testDatasource();
  jest
    .spyOn(DataSourceWithBackend.prototype, 'callHealthCheck')
    .mockResolvedValueOnce({ status: HealthStatus.Error, message: 'snapshotDir "x" is not absolute', details: {} });
  await expect(datasource.testDatasource()).rejects.toMatchObject({ message: 'Directory "x" is not absolute' });
});

it('calls queries by what they answer', () => {
  const { datasource } = testDatasource();
  expect(datasource.getQueryDisplayText({ refId: 'A', queryType: 'userHours', view: 'timeseries' })).toBe(
    'GPU hours over time, by category.'
  );
});

describe('GpuVariables', () => {
  const request = (query: Partial<VariableQuery>) =>
    ({ targets: [{ refId: 'A', ...query }], range, scopedVars: {} }) as DataQueryRequest<VariableQuery>;

  it('has the values of a dimension, under a filter that may name other variables', async () => {
    const { datasource, getResource } = testDatasource([{ name: 'm', options: ['a', 'b'], value: ['a', 'b'] }]);
    getResource.mockResolvedValue([{ text: 'Open Capacity', value: 'Shared' }]);
    const variables = new GpuVariables(datasource);
    const answer = await lastValueFrom(
      variables.query(request({ dimension: 'category', filter: { machines: ['$m'] } }))
    );
    expect(answer.data).toEqual([{ text: 'Open Capacity', value: 'Shared' }]);
    expect(getResource).toHaveBeenCalledWith(
      'values/category',
      { filter: '{"machines":["a","b"]}', from: 1_000, to: 2_000 },
      quietly
    );
  });

  it('asks nothing while no dimension is chosen', async () => {
    const { datasource, getResource } = testDatasource();
    expect((await lastValueFrom(new GpuVariables(datasource).query(request({})))).data).toEqual([]);
    expect(getResource).not.toHaveBeenCalled();
  });

  it('passes errors on', async () => {
    const { datasource, getResource } = testDatasource();
    getResource.mockRejectedValue(new Error('no such directory'));
    await expect(lastValueFrom(new GpuVariables(datasource).query(request({ dimension: 'user' })))).rejects.toThrow(
      'no such directory'
    );
  });
});

describe('a data source of many pools', () => {
  const { datasource } = testDatasource([{ name: 'p', options: ['a', 'b'], value: ['a', 'b'] }], { mode: 'fleet' });
  const query = { refId: 'A', queryType: 'allocation', groupBy: ['pool'], filter: { pools: ['$p'] } };

  it('keeps pools, filled in, and calls queries by them', () => {
    expect(datasource.applyTemplateVariables(query, {})).toMatchObject({
      groupBy: ['pool'],
      filter: { pools: ['a', 'b'] },
    });
    expect(datasource.getQueryDisplayText(query)).toBe(
      'Allocated % of GPUs over time, by pool. Only pools $p. ' +
        'Primary and backfill slots are listed separately and never added.'
    );
  });

  it('has pools and no machines as keys of ad-hoc filters', async () => {
    const keys = (await datasource.getTagKeys()).map(({ value }) => value);
    expect(keys).toEqual(expect.arrayContaining(['pools', 'devices', 'users']));
    expect(keys).not.toContain('machines');
    const filters = ['pool', 'machine'].map((key) => ({ key, operator: '=', value: 'a' }));
    expect(datasource.applyTemplateVariables(query, {}, filters).filter).toEqual({ pools: ['a'] });
    const options = { key: 'pool', value: 'b' };
    expect(datasource.modifyQuery({ ...query, filter: {} }, { type: 'ADD_FILTER', options }).filter).toEqual({
      pools: ['b'],
    });
  });

  it('has slices of an hour', () => expect(datasource.sliceMinutes).toBe(60));
});

it('a data source of a pool has no pools', async () => {
  const { datasource } = testDatasource();
  expect((await datasource.getTagKeys()).map(({ value }) => value)).not.toContain('pools');
  expect(datasource.sliceMinutes).toBe(15);
});
