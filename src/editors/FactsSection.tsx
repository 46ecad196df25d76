import React from 'react';
import { Field } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { factsTexts, settingLabels } from '../labels';
import { settingInputs, SettingsEditorProps } from './settingInputs';

/** The alias of the facts in the documentation. */
const factsIndex = 'gpu-facts';

/** The facts that many pools publish: the source of answers for them, and the place where a pool publishes its own. */
export function FactsSection(props: SettingsEditorProps) {
  const { jsonData, readOnly } = props.options;
  const { text, publishing } = settingInputs(props);
  const isOfPool = jsonData.mode !== 'fleet';

  return (
    <ConfigSection
      key={String(isOfPool)}
      title="Facts"
      description={isOfPool ? factsTexts.ofPool : factsTexts.ofFleet}
      isCollapsible={isOfPool}
      isInitiallyOpen={!isOfPool || Boolean(jsonData.factsIndex || jsonData.publishTo)}
    >
      <Field
        label={settingLabels.factsIndex}
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
        <Field label={settingLabels['publishTo.pool']} description={factsTexts.poolHelp} disabled={readOnly}>
          {publishing('pool', 'CHTC')}
        </Field>
      )}
      {isOfPool && jsonData.publishTo && (
        <Field label={settingLabels['publishTo.index']} description={factsTexts.indexHelp} disabled={readOnly}>
          {publishing('index', jsonData.factsIndex ?? factsIndex)}
        </Field>
      )}
    </ConfigSection>
  );
}
