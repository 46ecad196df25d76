import React from 'react';
import { Button, Field, RadioButtonGroup, Stack } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { privacyTexts, settingLabels } from '../labels';
import { settingDefaults, UserNames } from '../settings';
import { settingInputs, SettingsEditorProps } from './settingInputs';

const choices: Array<{ value: UserNames; label: string }> = [
  { value: 'full', label: 'Names' },
  { value: 'pseudonyms', label: 'Pseudonyms' },
];

/** Who sees the names of users. */
export function PrivacySection(props: SettingsEditorProps) {
  const { jsonData, readOnly, secureJsonFields } = props.options;
  const { change, changeSecret, secret } = settingInputs(props);
  const userNames = jsonData.userNames ?? settingDefaults.userNames;

  return (
    <ConfigSection title="Privacy" description={privacyTexts.section}>
      <Field label="Viewers see" description={privacyTexts.names} disabled={readOnly}>
        <RadioButtonGroup
          aria-label="What viewers see of users"
          options={choices}
          value={userNames}
          onChange={(chosen) => change({ userNames: chosen })}
        />
      </Field>
      {userNames === 'pseudonyms' && (
        <Field
          label={settingLabels.pseudonymSecret}
          description={privacyTexts.secret}
          required
          disabled={readOnly}
          htmlFor="config-pseudonymSecret"
        >
          <Stack>
            {secret('pseudonymSecret')}
            {!secureJsonFields?.pseudonymSecret && (
              <Button
                variant="secondary"
                disabled={readOnly}
                onClick={() => changeSecret('pseudonymSecret', randomSecret())}
              >
                Generate
              </Button>
            )}
          </Stack>
        </Field>
      )}
    </ConfigSection>
  );
}

/** 256 random bits, in hexadecimal digits. */
function randomSecret(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(32)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
