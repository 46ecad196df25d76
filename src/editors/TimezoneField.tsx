import React from 'react';
import { Button, Combobox, Field, IconButton, InlineField, Input, RadioButtonGroup, Stack } from '@grafana/ui';

import { settingLabels, settingTexts } from '../labels';
import { chosenFirst } from '../query/labels';
import { zoneNamed, zoneOptions } from '../query/zones';
import { settingDefaults, ZoneChange } from '../settings';

interface Props {
  value: string | ZoneChange[] | undefined;
  /** The times that the zone is for; by default the snapshots' timestamps. */
  description?: string;
  onChange: (value: string | ZoneChange[]) => void;
  readOnly?: boolean;
}

const forms = [
  { value: false, label: settingTexts.oneZone },
  { value: true, label: settingTexts.changedZone },
];

/** The zone of the collector's clock: one name, or a list where it changed. */
export function TimezoneField({
  value = settingDefaults.timezone,
  description = settingTexts.timezone,
  onChange,
  readOnly,
}: Props) {
  const changes: ZoneChange[] = Array.isArray(value) ? value : [{ zone: value }];
  const isList = Array.isArray(value);
  const last = changes.length - 1;

  const change = (index: number, fields: Partial<ZoneChange>) =>
    onChange(changes.map((entry, i) => (i === index ? { ...entry, ...fields } : entry)));

  return (
    <Field
      label={settingLabels.timezone}
      description={description}
      disabled={readOnly}
      htmlFor={isList ? undefined : 'config-timezone'}
    >
      <Stack direction="column" alignItems="flex-start" gap={1}>
        <RadioButtonGroup
          aria-label="Form of the time zone"
          options={forms}
          value={isList}
          disabled={readOnly}
          onChange={(list) =>
            onChange(list ? [{ until: '', zone: changes[0].zone }, { zone: changes[last].zone }] : changes[last].zone)
          }
        />
        {isList ? (
          <>
            {changes.map((entry, index) => (
              <Stack key={index} gap={1} alignItems="center">
                <InlineField label="Zone" htmlFor={`config-timezone-${index}`} disabled={readOnly}>
                  <Combobox
                    id={`config-timezone-${index}`}
                    width={30}
                    options={chosenFirst(zoneOptions, entry.zone)}
                    createCustomValue
                    value={entry.zone}
                    disabled={readOnly}
                    onChange={({ value: zone }) => change(index, { zone: zoneNamed(zone) })}
                  />
                </InlineField>
                {index < last && (
                  <>
                    <InlineField
                      label="until"
                      tooltip="Local time at which this zone ended"
                      htmlFor={`config-timezone-until-${index}`}
                      disabled={readOnly}
                    >
                      <Input
                        id={`config-timezone-until-${index}`}
                        width={24}
                        placeholder="YYYY-MM-DD HH:MM:SS"
                        value={entry.until ?? ''}
                        onChange={(event) => change(index, { until: event.currentTarget.value })}
                      />
                    </InlineField>
                    <IconButton
                      name="trash-alt"
                      aria-label={`Remove zone ${index + 1}`}
                      disabled={readOnly}
                      onClick={() => onChange(changes.filter((_, i) => i !== index))}
                    />
                  </>
                )}
              </Stack>
            ))}
            <div>
              <Button
                variant="secondary"
                size="sm"
                icon="plus"
                disabled={readOnly}
                onClick={() =>
                  onChange([...changes.slice(0, last), { until: '', zone: changes[last].zone }, changes[last]])
                }
              >
                {settingTexts.addZone}
              </Button>
            </div>
          </>
        ) : (
          <Combobox
            id="config-timezone"
            width={30}
            options={chosenFirst(zoneOptions, value)}
            createCustomValue
            value={value}
            disabled={readOnly}
            onChange={({ value: zone }) => onChange(zoneNamed(zone))}
          />
        )}
      </Stack>
    </Field>
  );
}
