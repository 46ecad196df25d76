import React from 'react';
import { DataSourcePluginOptionsEditorProps } from '@grafana/data';
import { Input, SecretInput } from '@grafana/ui';

import type { ListFile } from '../labels';
import { GpuSecrets, GpuSettings, PublishTo, shownOnly, usesElasticsearch } from '../settings';

/** The props that Grafana passes to an editor of the data source's settings. */
export type SettingsEditorProps = DataSourcePluginOptionsEditorProps<GpuSettings, GpuSecrets>;

const width = 60;

/** The settings that are not shown, by the uid of their data source: they come back with their fields. */
const hidden = new Map<string, { url: string; fields: Partial<GpuSettings> }>();

/** Inputs of settings. Each has the id config-<setting>; an empty text is a setting that is missing. */
export function settingInputs({ options, onOptionsChange }: SettingsEditorProps) {
  const { jsonData, readOnly, secureJsonData, secureJsonFields } = options;

  const change = (fields: Partial<GpuSettings>) => {
    const before = hidden.get(options.uid);
    const all = { ...before?.fields, ...jsonData, ...fields };
    const shown = shownOnly(all);
    const known = options.url || before?.url || '';
    // A URL that is not shown must not keep the settings from being saved.
    const url = usesElasticsearch(shown) ? known : '';
    const rest = Object.entries(all).filter(([field]) => !(field in shown));
    hidden.set(options.uid, { url: url ? '' : known, fields: Object.fromEntries(rest) });
    onOptionsChange({ ...options, url, jsonData: shown });
  };

  const changeSecret = (field: keyof GpuSecrets, value: string) =>
    onOptionsChange({
      ...options,
      secureJsonFields: { ...secureJsonFields, [field]: false },
      secureJsonData: { ...secureJsonData, [field]: value },
    });

  const text = (
    field:
      | 'snapshotDir'
      | 'factsIndex'
      | 'snapshotBucket'
      | 'segmentBucket'
      | 'bucketEndpoint'
      | 'bucketRegion'
      | ListFile
      | 'cacheDir'
      | 'jobsPath'
      | 'jobsIndex'
      | 'jobsEpochIndex',
    placeholder: string
  ) => input(field, placeholder, jsonData[field], (value) => change({ [field]: value }));

  const publishing = (field: keyof PublishTo, placeholder: string) =>
    input(`publishTo-${field}`, placeholder, jsonData.publishTo?.[field], (value) => {
      const { pool, index }: PublishTo = { ...jsonData.publishTo, [field]: value };
      change({ publishTo: pool || index ? { pool, index } : undefined });
    });

  const secret = (field: keyof GpuSecrets) => (
    <SecretInput
      id={`config-${field}`}
      width={width}
      disabled={readOnly}
      isConfigured={secureJsonFields?.[field] ?? false}
      value={secureJsonData?.[field] ?? ''}
      onChange={(event) => changeSecret(field, event.currentTarget.value)}
      onReset={() => changeSecret(field, '')}
    />
  );

  return { change, changeSecret, text, publishing, secret };
}

function input(
  name: string,
  placeholder: string,
  value: string | undefined,
  onChange: (value: string | undefined) => void
) {
  return (
    <Input
      id={`config-${name}`}
      width={width}
      placeholder={placeholder}
      value={value ?? ''}
      onChange={(event) => onChange(event.currentTarget.value || undefined)}
    />
  );
}
