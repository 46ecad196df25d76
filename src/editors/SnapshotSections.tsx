import React from 'react';
import { Combobox, Divider, Field, Input, Space } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { settingLabels, snapshotTexts } from '../labels';
import { settingDefaults, sliceLengths } from '../settings';
import { BucketSection } from './BucketSection';
import { settingInputs, SettingsEditorProps } from './settingInputs';
import { TimezoneField } from './TimezoneField';

/** Where a pool's snapshots are, how they are read, and how they are cached. */
export function SnapshotSections(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { change, text } = settingInputs(props);
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
      <ConfigSection
        title="Snapshots"
        description="The monthly files of the snapshot collector. The plugin only reads them."
      >
        <Field
          label={settingLabels.snapshotDir}
          description={
            "Absolute path on Grafana's server of the directory with the files gpu_state_YYYY-MM.db or " +
            'gpu_state_YYYY-MM.parquet.'
          }
          required={!jsonData.snapshotBucket}
          disabled={readOnly}
        >
          {text('snapshotDir', '/srv/gpu-snapshots')}
        </Field>
        <BucketSection {...props} />
        <Space v={2} />
        <TimezoneField value={jsonData.timezone} onChange={(timezone) => change({ timezone })} readOnly={readOnly} />
        <Field
          label={settingLabels.sliceMinutes}
          description={snapshotTexts.slice}
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
      <ConfigSection title="Ownership, exclusions and tiers" description={snapshotTexts.lists}>
        <Field
          label={settingLabels.chtcOwnedFile}
          description={
            'File with one host name per line; # begins a comment. These machines are CHTC-owned ' +
            'regardless of their projects.'
          }
          disabled={readOnly}
        >
          {text('chtcOwnedFile', settingDefaults.chtcOwnedFile)}
        </Field>
        <Field
          label={settingLabels.hostExclusionsFile}
          description={
            'YAML file with excluded_hosts: {part of a host name: reason}. Excluded hosts are left out ' +
            'of all figures, and every answer reports them.'
          }
          disabled={readOnly}
        >
          {text('hostExclusionsFile', settingDefaults.hostExclusionsFile)}
        </Field>
        <Field
          label={settingLabels.gpuTiersFile}
          description={
            'YAML file with tiers: {name: [parts of device names]}; all other devices are Standard. ' +
            'Without a file, H200, H100 80GB HBM3 and A100-SXM4-80GB are Flagship.'
          }
          disabled={readOnly}
        >
          {text('gpuTiersFile', settingDefaults.gpuTiersFile)}
        </Field>
        <Field
          label={settingLabels.gpuNamesFile}
          description="YAML file with names: {stored name: display name} for devices in tables and legends."
          disabled={readOnly}
        >
          {text('gpuNamesFile', settingDefaults.gpuNamesFile)}
        </Field>
        <Field
          label={settingLabels.projectNamesFile}
          description={
            'YAML file with projects: {name in PrioritizedProjects: [names in ChtcProjects]}, for projects whose ' +
            'machines and jobs have different names.'
          }
          disabled={readOnly}
        >
          {text('projectNamesFile', settingDefaults.projectNamesFile)}
        </Field>
      </ConfigSection>
      <Divider />
      <ConfigSection title="Cache" description={snapshotTexts.cache} isCollapsible>
        <Field
          label={settingLabels.cacheDir}
          description={
            'Absolute path of a directory that the plugin can write to; it creates its own subdirectory' +
            ' there. If empty, the cache is in memory only and is rebuilt when the plugin starts.'
          }
          disabled={readOnly}
        >
          {text('cacheDir', 'In memory only')}
        </Field>
        <Field label={settingLabels.cacheMaxMB} description="Maximum memory for the cache." disabled={readOnly}>
          {megabytes('cacheMaxMB')}
        </Field>
        <Field
          label={settingLabels.cacheDiskMB}
          description="Maximum disk space for the cache directory."
          disabled={readOnly}
        >
          {megabytes('cacheDiskMB')}
        </Field>
      </ConfigSection>
    </>
  );
}
