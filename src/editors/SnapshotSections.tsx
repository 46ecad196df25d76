import React from 'react';
import { Combobox, Divider, Field, Input, Space } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { ListFile, listFiles, settingLabels, snapshotTexts } from '../labels';
import { chosenFirst } from '../query/labels';
import { settingDefaults, sliceLengths } from '../settings';
import { BucketSection } from './BucketSection';
import { settingInputs, SettingsEditorProps } from './settingInputs';
import { TimezoneField } from './TimezoneField';

/** Where a pool's snapshots are, how they are read, and how they are cached. */
export function SnapshotSections(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { change, text } = settingInputs(props);
  const sliceMinutes = jsonData.sliceMinutes ?? settingDefaults.sliceMinutes;
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
            options={chosenFirst(
              sliceLengths.map((value) => ({ value, label: value ? `${value} minutes` : 'Every snapshot' })),
              sliceMinutes
            )}
            value={sliceMinutes}
            onChange={({ value }) => change({ sliceMinutes: value })}
            disabled={readOnly}
          />
        </Field>
      </ConfigSection>
      <Divider />
      <ConfigSection title="Ownership, exclusions and tiers" description={snapshotTexts.lists}>
        {(Object.keys(listFiles) as ListFile[]).map((name) => (
          <Field key={name} label={listFiles[name].label} description={listFiles[name].description} disabled={readOnly}>
            {text(name, listFiles[name].byDefault)}
          </Field>
        ))}
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
