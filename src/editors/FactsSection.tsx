import React from 'react';
import { Field } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { settingInputs, SettingsEditorProps } from './settingInputs';

/** The facts that many pools publish: what answers for them are made from, and where a pool publishes its own. */
export function FactsSection(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { text } = settingInputs(props);
  const isOfPool = jsonData.mode !== 'fleet';

  return (
    <ConfigSection
      key={String(isOfPool)}
      title="Facts"
      description={
        isOfPool
          ? 'Hourly sums that a pool publishes into Elasticsearch, for data sources of many pools.'
          : 'Hourly sums that the pools publish with gpureports publish. Times are those of full hours.'
      }
      isCollapsible={isOfPool}
      isInitiallyOpen={!isOfPool || Boolean(jsonData.factsIndex)}
    >
      <Field
        label="Facts index"
        description={
          isOfPool
            ? 'Alias under which gpureports publish puts the facts of this pool. Empty: they are not published.'
            : 'Alias under which the pools publish their facts.'
        }
        required={!isOfPool}
        disabled={readOnly}
      >
        {text('factsIndex', 'gpu-facts')}
      </Field>
    </ConfigSection>
  );
}
