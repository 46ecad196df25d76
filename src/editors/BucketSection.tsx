import React from 'react';
import { Field, Switch, TextArea } from '@grafana/ui';
import { ConfigSubSection } from '@grafana/plugin-ui';

import { bucketTexts, settingLabels } from '../labels';
import { settingInputs, SettingsEditorProps } from './settingInputs';

/** Buckets for the snapshots, instead of a directory, and for data derived from finished days. */
export function BucketSection(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { change, text, secret } = settingInputs(props);

  return (
    <ConfigSubSection
      title="Buckets"
      description={bucketTexts.section}
      isCollapsible
      isInitiallyOpen={Boolean(jsonData.snapshotBucket || jsonData.segmentBucket)}
    >
      <Field label={settingLabels.snapshotBucket} description={bucketTexts.snapshotsHelp} disabled={readOnly}>
        {text('snapshotBucket', 's3://bucket/prefix')}
      </Field>
      <Field label={settingLabels.segmentBucket} description={bucketTexts.segmentsHelp} disabled={readOnly}>
        {text('segmentBucket', 's3://bucket/prefix')}
      </Field>
      <Field label={settingLabels.bucketEndpoint} description={bucketTexts.endpoint} disabled={readOnly}>
        {text('bucketEndpoint', 'https://s3.example.com')}
      </Field>
      <Field label={settingLabels.bucketRegion} description={bucketTexts.region} disabled={readOnly}>
        {text('bucketRegion', 'us-east-1')}
      </Field>
      <Field label={settingLabels.bucketPathStyle} description={bucketTexts.pathStyleHelp} disabled={readOnly}>
        <Switch
          id="config-bucketPathStyle"
          value={jsonData.bucketPathStyle ?? false}
          onChange={(event) => change({ bucketPathStyle: event.currentTarget.checked || undefined })}
        />
      </Field>
      <Field label={settingLabels.bucketCA} description={bucketTexts.certificates} disabled={readOnly}>
        <TextArea
          id="config-bucketCA"
          cols={60}
          rows={3}
          placeholder="-----BEGIN CERTIFICATE-----"
          value={jsonData.bucketCA ?? ''}
          onChange={(event) => change({ bucketCA: event.currentTarget.value || undefined })}
        />
      </Field>
      <Field label={settingLabels.bucketAccessKey} description={bucketTexts.keys} disabled={readOnly}>
        {secret('bucketAccessKey')}
      </Field>
      <Field label={settingLabels.bucketSecretKey} disabled={readOnly}>
        {secret('bucketSecretKey')}
      </Field>
    </ConfigSubSection>
  );
}
