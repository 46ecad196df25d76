import React from 'react';
import { DataSourcePluginOptionsEditorProps } from '@grafana/data';
import { Button, Field, RadioButtonGroup, SecretInput, Stack } from '@grafana/ui';
import { ConfigSection } from '@grafana/plugin-ui';

import { GpuSecrets, GpuSettings, settingDefaults, UserNames } from '../settings';

type Props = DataSourcePluginOptionsEditorProps<GpuSettings, GpuSecrets>;

const choices: Array<{ value: UserNames; label: string }> = [
  { value: 'full', label: 'Names' },
  { value: 'pseudonyms', label: 'Pseudonyms' },
];

/** Who sees the names of users. */
export function PrivacySection({ options, onOptionsChange }: Props) {
  const { jsonData, readOnly, secureJsonFields, secureJsonData } = options;
  const userNames = jsonData.userNames ?? settingDefaults.userNames;
  const setSecret = (pseudonymSecret: string) =>
    onOptionsChange({
      ...options,
      secureJsonFields: { ...secureJsonFields, pseudonymSecret: false },
      secureJsonData: { ...secureJsonData, pseudonymSecret },
    });

  return (
    <ConfigSection
      title="Privacy"
      description="What viewers see of users and jobs. Editors and administrators see names."
    >
      <Field
        label="Viewers see"
        description="With pseudonyms, users are shown as “User 482913377”, also in variables, annotations and alert rules."
        disabled={readOnly}
      >
        <RadioButtonGroup
          aria-label="What viewers see of users"
          options={choices}
          value={userNames}
          onChange={(chosen) => onOptionsChange({ ...options, jsonData: { ...jsonData, userNames: chosen } })}
        />
      </Field>
      {userNames === 'pseudonyms' && (
        <Field
          label="Secret"
          description="At least 16 characters that nobody can guess. Pseudonyms are made with it; with another one, users get other numbers."
          required
          disabled={readOnly}
          htmlFor="config-pseudonymSecret"
        >
          <Stack>
            <SecretInput
              id="config-pseudonymSecret"
              width={60}
              disabled={readOnly}
              isConfigured={!!secureJsonFields?.pseudonymSecret}
              value={secureJsonData?.pseudonymSecret ?? ''}
              onChange={(event) => setSecret(event.currentTarget.value)}
              onReset={() => setSecret('')}
            />
            {!secureJsonFields?.pseudonymSecret && (
              <Button variant="secondary" disabled={readOnly} onClick={() => setSecret(randomSecret())}>
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
