import React from 'react';
import { Field } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { settingInputs, SettingsEditorProps } from './settingInputs';

/** What the documentation calls the alias of the facts. */
const factsIndex = 'gpu-facts';

/** The facts that many pools publish: what answers for them are made from, and where a pool publishes its own. */
export function FactsSection(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { text, publishing } = settingInputs(props);
  const isOfPool = jsonData.mode !== 'fleet';

  return (
    <ConfigSection
      key={String(isOfPool)}
      title="Facts"
      description={
        isOfPool
          ? 'Hourly sums that a pool publishes into Elasticsearch, for data sources of many pools.'
          : 'Hourly sums that the pools publish. Times are those of full hours.'
      }
      isCollapsible={isOfPool}
      isInitiallyOpen={!isOfPool || Boolean(jsonData.factsIndex || jsonData.publishTo)}
    >
      <Field
        label="Facts index"
        description={
          isOfPool
            ? 'Alias under which the facts of this pool are published, by gpureports publish or by the plugin itself.'
            : 'Alias under which the pools publish their facts.'
        }
        required={!isOfPool}
        disabled={readOnly}
      >
        {text('factsIndex', factsIndex)}
      </Field>
      {isOfPool && (
        <Field
          label="Publish as"
          description={
            'Name of this pool among the pools: under it the plugin publishes the facts each hour, for as long as ' +
            'Grafana runs. Empty: the plugin does not publish them.'
          }
          disabled={readOnly}
        >
          {publishing('pool', 'CHTC')}
        </Field>
      )}
      {isOfPool && jsonData.publishTo && (
        <Field
          label="Publish under"
          description="Alias under which the plugin publishes. Empty: the facts index."
          disabled={readOnly}
        >
          {publishing('index', jsonData.factsIndex ?? factsIndex)}
        </Field>
      )}
    </ConfigSection>
  );
}
