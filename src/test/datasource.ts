import { DataSourceInstanceSettings, PluginType } from '@grafana/data';

import { DataSource } from '../datasource';
import { GpuSettings } from '../settings';
import { FakeVariable, fakeTemplateSrv } from './templateSrv';

/** A data source whose resources are answered by a function of the test. */
export function testDatasource(variables: FakeVariable[] = [], jsonData: GpuSettings = {}) {
  const settings = {
    uid: 'gpu',
    name: 'GPU Reports',
    type: 'chtc-gpureports-datasource',
    access: 'proxy',
    readOnly: false,
    jsonData,
    meta: {
      id: 'chtc-gpureports-datasource',
      name: 'GPU Reports',
      type: PluginType.datasource,
      module: '',
      baseUrl: '',
      info: {
        author: { name: '' },
        description: '',
        links: [],
        logos: { large: '', small: '' },
        screenshots: [],
        updated: '',
        version: '',
      },
    },
  } as DataSourceInstanceSettings<GpuSettings>;
  const datasource = new DataSource(settings, fakeTemplateSrv(variables));
  const getResource = jest.fn().mockResolvedValue([]);
  datasource.getResource = getResource;
  return { datasource, getResource };
}
