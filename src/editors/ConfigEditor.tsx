import React from 'react';
import { Divider, Field, RadioButtonGroup, Switch } from '@grafana/ui';
import { ConfigSection, DataSourceDescription } from '@grafana/plugin-ui';

import { Mode, settingDefaults } from '../settings';
import { ElasticsearchSection } from './ElasticsearchSection';
import { FactsSection } from './FactsSection';
import { JobsSection } from './JobsSection';
import { PrivacySection } from './PrivacySection';
import { settingInputs, SettingsEditorProps } from './settingInputs';
import { SnapshotSections } from './SnapshotSections';
import { TimezoneField } from './TimezoneField';

const modes: Array<{ value: Mode; label: string; description: string }> = [
  { value: 'pool', label: 'One pool', description: 'Every question about one pool, answered from its snapshots' },
  { value: 'fleet', label: 'Many pools', description: 'Questions across pools, answered from the facts they publish' },
];

/** The settings that a data source of many pools cannot have. */
const ofOnePool = { snapshotDir: undefined, snapshotBucket: undefined, publishTo: undefined };

/** The data source's settings. "Save & test" asks the backend, which says in sentences what it found. */
export function ConfigEditor(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { change } = settingInputs(props);
  const mode = jsonData.mode || settingDefaults.mode;
  const isOfPool = mode === 'pool';
  const hasFacts = jsonData.factsIndex !== undefined || jsonData.publishTo !== undefined;
  const usesElasticsearch = !isOfPool || jsonData.jobs === 'elasticsearch' || hasFacts;

  return (
    <>
      <DataSourceDescription
        dataSourceName="GPU Reports"
        docsLink="https://github.com/chtc/gpureports#readme"
        hasRequiredFields
      />
      <Divider />
      <Field
        label="Answers for"
        description={modes.find(({ value }) => value === mode)?.description}
        disabled={readOnly}
      >
        <RadioButtonGroup
          aria-label="Answers for"
          options={modes}
          value={mode}
          // what answers for many pools has no snapshots and publishes no facts: the backend refuses both
          onChange={(chosen) => change({ mode: chosen, ...(chosen === 'fleet' && ofOnePool) })}
        />
      </Field>
      <Divider />
      {isOfPool && <SnapshotSections {...props} />}
      {isOfPool && <Divider />}
      {isOfPool && <JobsSection {...props} />}
      {isOfPool && <Divider />}
      <FactsSection {...props} />
      {!isOfPool && (
        <TimezoneField value={jsonData.timezone} onChange={(timezone) => change({ timezone })} readOnly={readOnly} />
      )}
      {usesElasticsearch && <Divider />}
      {usesElasticsearch && <ElasticsearchSection {...props} />}
      <Divider />
      <PrivacySection {...props} />
      {isOfPool && <Divider />}
      {isOfPool && (
        <ConfigSection title="Links" isCollapsible>
          <Field
            label="From names to dashboards"
            description={
              "Machines, users and devices in tables lead to the plugin's dashboards, where these are " + 'imported.'
            }
            disabled={readOnly}
          >
            <Switch
              id="config-links"
              value={jsonData.links ?? settingDefaults.links}
              onChange={(event) => change({ links: event.currentTarget.checked })}
            />
          </Field>
        </ConfigSection>
      )}
    </>
  );
}
