import React from 'react';
import { Divider, Field, RadioButtonGroup, Switch } from '@grafana/ui';
import { ConfigSection, DataSourceDescription } from '@grafana/plugin-ui';

import { settingTexts } from '../labels';
import { Mode, settingDefaults, usesElasticsearch } from '../settings';
import { ElasticsearchSection } from './ElasticsearchSection';
import { FactsSection } from './FactsSection';
import { JobsSection } from './JobsSection';
import { PrivacySection } from './PrivacySection';
import { settingInputs, SettingsEditorProps } from './settingInputs';
import { SnapshotSections } from './SnapshotSections';
import { TimezoneField } from './TimezoneField';

const modes: Array<{ value: Mode; label: string; description: string }> = [
  { value: 'pool', label: 'One pool', description: settingTexts.pool },
  { value: 'fleet', label: 'Many pools', description: settingTexts.fleet },
];

/** The data source's settings. "Save & test" calls the backend's health check, which answers in sentences. */
export function ConfigEditor(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { change } = settingInputs(props);
  const mode = jsonData.mode || settingDefaults.mode;
  const isOfPool = mode === 'pool';

  return (
    <>
      <DataSourceDescription
        dataSourceName="GPU Reports"
        docsLink="https://github.com/chtc/gpureports#readme"
        hasRequiredFields
      />
      <Divider />
      <Field
        label={settingTexts.scope}
        description={modes.find(({ value }) => value === mode)?.description}
        disabled={readOnly}
      >
        <RadioButtonGroup
          aria-label={settingTexts.scope}
          options={modes}
          value={mode}
          onChange={(chosen) => change({ mode: chosen })}
        />
      </Field>
      <Divider />
      {isOfPool && <SnapshotSections {...props} />}
      {isOfPool && <Divider />}
      {isOfPool && <JobsSection {...props} />}
      {isOfPool && <Divider />}
      <FactsSection {...props} />
      {!isOfPool && (
        <TimezoneField
          value={jsonData.timezone}
          description={settingTexts.fleetTimezone}
          onChange={(timezone) => change({ timezone })}
          readOnly={readOnly}
        />
      )}
      {usesElasticsearch(jsonData) && <Divider />}
      {usesElasticsearch(jsonData) && <ElasticsearchSection {...props} />}
      <Divider />
      <PrivacySection {...props} />
      {isOfPool && <Divider />}
      {isOfPool && (
        <ConfigSection title="Links" isCollapsible>
          <Field label={settingTexts.links} description={settingTexts.linksHelp} disabled={readOnly}>
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
