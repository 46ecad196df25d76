import React from 'react';
import { Field, RadioButtonGroup } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { settingLabels } from '../labels';
import { JobsSource, settingDefaults } from '../settings';
import { settingInputs, SettingsEditorProps } from './settingInputs';

const sources: Array<{ value: JobsSource; label: string; description: string }> = [
  {
    value: 'none',
    label: 'None',
    description: 'Evictions are inferred from snapshots only; their rate can be too high or too low',
  },
  { value: 'sqlite', label: 'Job file', description: 'Job ads in a SQLite file next to the snapshots' },
  { value: 'elasticsearch', label: 'Elasticsearch', description: 'Job ads as condor_adstash stores them' },
];

/** Where the ads of finished jobs come from. */
export function JobsSection(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const source = jsonData.jobs ?? settingDefaults.jobs;
  const { change, text } = settingInputs(props);

  return (
    <ConfigSection
      title="Jobs"
      description={
        'Job ads record when a backfill job began and how it ended. Without them, completed and evicted' +
        ' jobs cannot be distinguished.'
      }
    >
      <Field
        label="Source"
        description={sources.find(({ value }) => value === source)?.description}
        disabled={readOnly}
      >
        <RadioButtonGroup
          aria-label="Source of job ads"
          options={sources}
          value={source}
          onChange={(jobs) => change({ jobs })}
        />
      </Field>
      {source === 'sqlite' && (
        <Field
          label={settingLabels.jobsPath}
          description={
            'Name of the file in the snapshot directory. The command gpureports import-jobs creates it ' +
            'from history and epoch ads.'
          }
          disabled={readOnly}
        >
          {text('jobsPath', settingDefaults.jobsPath)}
        </Field>
      )}
      {source === 'elasticsearch' && (
        <>
          <Field
            label={settingLabels.jobsIndex}
            description="Index or pattern with the job ads of condor_history."
            required
            disabled={readOnly}
          >
            {text('jobsIndex', 'htcondor-history-*')}
          </Field>
          <Field
            label={settingLabels.jobsEpochIndex}
            description={
              'Index or pattern with one ad for each run of a job, if condor_adstash stores them; ' +
              'otherwise leave empty.'
            }
            disabled={readOnly}
          >
            {text('jobsEpochIndex', 'htcondor-epochs-*')}
          </Field>
        </>
      )}
    </ConfigSection>
  );
}
