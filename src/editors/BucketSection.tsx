import React from 'react';
import { DataSourcePluginOptionsEditorProps } from '@grafana/data';
import { Field, Input, SecretInput, Switch, TextArea } from '@grafana/ui';
import { ConfigSubSection } from '@grafana/plugin-ui';

import { GpuSecrets, GpuSettings } from '../settings';

type Props = DataSourcePluginOptionsEditorProps<GpuSettings, GpuSecrets>;

const width = 60;

/** A bucket that holds the snapshots, instead of a directory. */
export function BucketSection({ options, onOptionsChange }: Props) {
  const { jsonData, secureJsonData, secureJsonFields, readOnly } = options;
  const change = (fields: Partial<GpuSettings>) =>
    onOptionsChange({ ...options, jsonData: { ...jsonData, ...fields } });

  const text = (field: 'snapshotBucket' | 'bucketEndpoint' | 'bucketRegion', placeholder: string) => (
    <Input
      id={`config-${field}`}
      width={width}
      placeholder={placeholder}
      value={jsonData[field] ?? ''}
      onChange={(event) => change({ [field]: event.currentTarget.value || undefined })}
    />
  );
  const secret = (field: keyof GpuSecrets) => (
    <SecretInput
      id={`config-${field}`}
      width={width}
      isConfigured={secureJsonFields?.[field] ?? false}
      value={secureJsonData?.[field] ?? ''}
      onChange={(event) =>
        onOptionsChange({ ...options, secureJsonData: { ...secureJsonData, [field]: event.currentTarget.value } })
      }
      onReset={() =>
        onOptionsChange({
          ...options,
          secureJsonFields: { ...secureJsonFields, [field]: false },
          secureJsonData: { ...secureJsonData, [field]: '' },
        })
      }
    />
  );

  return (
    <ConfigSubSection
      title="Bucket"
      description="Snapshots in an S3 bucket, in Parquet, instead of a directory: several Grafana servers can share it. The server's operator must allow it (allowed_buckets)."
      isCollapsible
      isInitiallyOpen={Boolean(jsonData.snapshotBucket)}
    >
      <Field
        label="Bucket"
        description="Name and prefix of the objects. Leave the directory empty then."
        disabled={readOnly}
      >
        {text('snapshotBucket', 's3://bucket/prefix')}
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
          cols={width}
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
