import React from 'react';
import { DataSourcePluginOptionsEditorProps } from '@grafana/data';
import { Combobox, Divider, Field, Input } from '@grafana/ui';
import { ConfigSection, DataSourceDescription } from '@grafana/plugin-ui';

import { GpuSecrets, GpuSettings, settingDefaults, sliceLengths } from '../settings';
import { JobsSection } from './JobsSection';
import { PrivacySection } from './PrivacySection';
import { TimezoneField } from './TimezoneField';

type Props = DataSourcePluginOptionsEditorProps<GpuSettings, GpuSecrets>;

const width = 60;

/** The data source's settings. "Save & test" asks the backend, which says in sentences what it found. */
export function ConfigEditor({ options, onOptionsChange }: Props) {
  const { jsonData, readOnly } = options;
  const change = (fields: Partial<GpuSettings>) =>
    onOptionsChange({ ...options, jsonData: { ...jsonData, ...fields } });

  const text = (field: 'snapshotDir' | 'chtcOwnedFile' | 'hostExclusionsFile' | 'cacheDir', placeholder: string) => (
    <Input
      id={`config-${field}`}
      width={width}
      placeholder={placeholder}
      value={jsonData[field] ?? ''}
      onChange={(event) => change({ [field]: event.currentTarget.value || undefined })}
    />
  );
  const megabytes = (field: 'cacheMaxMB' | 'cacheDiskMB') => (
    <Input
      id={`config-${field}`}
      width={20}
      type="number"
      min={1}
      suffix="MB"
      placeholder={String(settingDefaults[field])}
      value={jsonData[field] ?? ''}
      onChange={(event) =>
        change({ [field]: event.currentTarget.value ? Number(event.currentTarget.value) : undefined })
      }
    />
  );

  return (
    <>
      <DataSourceDescription
        dataSourceName="GPU Reports"
        docsLink="https://github.com/chtc/gpureports#readme"
        hasRequiredFields
      />
      <Divider />
      <ConfigSection
        title="Snapshots"
        description="The monthly SQLite files that the collector writes. They are only read."
      >
        <Field
          label="Directory"
          description="Absolute path, on Grafana's server, of the directory with the files gpu_state_YYYY-MM.db."
          required
          disabled={readOnly}
        >
          {text('snapshotDir', '/srv/gpu-snapshots')}
        </Field>
        <TimezoneField value={jsonData.timezone} onChange={(timezone) => change({ timezone })} readOnly={readOnly} />
        <Field
          label="Slice"
          description="Length of time in which a GPU counts once. 15 minutes fits the usual collector; with snapshots more often than that, GPU hours come out too high unless every snapshot is its own slice."
          disabled={readOnly}
          htmlFor="config-sliceMinutes"
        >
          <Combobox
            id="config-sliceMinutes"
            width={30}
            options={sliceLengths.map((value) => ({ value, label: value ? `${value} minutes` : 'Every snapshot' }))}
            value={jsonData.sliceMinutes ?? settingDefaults.sliceMinutes}
            onChange={({ value }) => change({ sliceMinutes: value })}
            disabled={readOnly}
          />
        </Field>
      </ConfigSection>
      <Divider />
      <ConfigSection
        title="Ownership and exclusions"
        description="Files inside the snapshot directory. A default file that does not exist is no error."
      >
        <Field
          label="CHTC owned machines"
          description="File with one host name a line, # for comments. These machines are CHTC owned whatever their projects."
          disabled={readOnly}
        >
          {text('chtcOwnedFile', settingDefaults.chtcOwnedFile)}
        </Field>
        <Field
          label="Excluded hosts"
          description="YAML file with excluded_hosts: {part of a host name: reason}. Excluded hosts count nowhere, and every answer says so."
          disabled={readOnly}
        >
          {text('hostExclusionsFile', settingDefaults.hostExclusionsFile)}
        </Field>
      </ConfigSection>
      <Divider />
      <ConfigSection
        title="Cache"
        description="What was once read from the snapshots is kept, so that a year answers at once."
        isCollapsible
      >
        <Field
          label="Directory"
          description="Absolute path of a directory that the plugin may write to; it keeps a subdirectory of its own there. Empty: in memory only, read anew when the plugin starts."
          disabled={readOnly}
        >
          {text('cacheDir', 'In memory only')}
        </Field>
        <Field label="Memory" description="Most memory for the cache." disabled={readOnly}>
          {megabytes('cacheMaxMB')}
        </Field>
        <Field label="Disk" description="Most space for files in the cache directory." disabled={readOnly}>
          {megabytes('cacheDiskMB')}
        </Field>
      </ConfigSection>
      <Divider />
      <PrivacySection options={options} onOptionsChange={onOptionsChange} />
      <Divider />
      <JobsSection options={options} onOptionsChange={onOptionsChange} />
    </>
  );
}
