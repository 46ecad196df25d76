import React from 'react';
import { Field, Switch, TextArea } from '@grafana/ui';
import { ConfigSubSection } from '@grafana/plugin-ui';

import { settingInputs, SettingsEditorProps } from './settingInputs';

/** Buckets of the snapshots, instead of a directory, and of what is made of finished days. */
export function BucketSection(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { change, text, secret } = settingInputs(props);

  return (
    <ConfigSubSection
      title="Buckets"
      description={
        "S3 buckets that several Grafana servers can share. The server's operator must allow them " +
        '(allowed_buckets). Both are on the same server, with the same keys.'
      }
      isCollapsible
      isInitiallyOpen={Boolean(jsonData.snapshotBucket || jsonData.segmentBucket)}
    >
      <Field
        label="Bucket of the snapshots"
        description="Name and prefix of the Parquet files. Leave the directory empty then."
        disabled={readOnly}
      >
        {text('snapshotBucket', 's3://bucket/prefix')}
      </Field>
      <Field
        label="Bucket of finished days"
        description={
          'Name and prefix of what is made of finished days: the server that needs a day first makes ' +
          'it, the others use it. Also with a directory of snapshots.'
        }
        disabled={readOnly}
      >
        {text('segmentBucket', 's3://bucket/prefix')}
      </Field>
      <Field label="Endpoint" description="URL of the S3 server. Empty: Amazon's." disabled={readOnly}>
        {text('bucketEndpoint', 'https://s3.example.com')}
      </Field>
      <Field label="Region" description="Empty: the server's own." disabled={readOnly}>
        {text('bucketRegion', 'us-east-1')}
      </Field>
      <Field
        label="Bucket in the path"
        description="The bucket's name is part of the path, not of the host's name, as Ceph mostly has it."
        disabled={readOnly}
      >
        <Switch
          id="config-bucketPathStyle"
          value={jsonData.bucketPathStyle ?? false}
          onChange={(event) => change({ bucketPathStyle: event.currentTarget.checked || undefined })}
        />
      </Field>
      <Field
        label="CA certificates"
        description="Of the authority that signed the server's certificate, if the system does not know it (PEM)."
        disabled={readOnly}
      >
        <TextArea
          id="config-bucketCA"
          cols={60}
          rows={3}
          placeholder="-----BEGIN CERTIFICATE-----"
          value={jsonData.bucketCA ?? ''}
          onChange={(event) => change({ bucketCA: event.currentTarget.value || undefined })}
        />
      </Field>
      <Field
        label="Access key"
        description="Both keys empty: those of the server's environment or machine, if the operator lends them."
        disabled={readOnly}
      >
        {secret('bucketAccessKey')}
      </Field>
      <Field label="Secret key" disabled={readOnly}>
        {secret('bucketSecretKey')}
      </Field>
    </ConfigSubSection>
  );
}
