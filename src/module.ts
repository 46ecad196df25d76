import { DataSourcePlugin } from '@grafana/data';

import { DataSource } from './datasource';
import { LazyConfigEditor } from './editors/LazyConfigEditor';
import { QueryEditor } from './editors/QueryEditor';
import { GpuQuery } from './query/types';
import { GpuSettings } from './settings';

export const plugin = new DataSourcePlugin<DataSource, GpuQuery, GpuSettings>(DataSource)
  .setConfigEditor(LazyConfigEditor)
  .setQueryEditor(QueryEditor);
