import React, { useState } from 'react';
import { ClipboardButton, Collapse, Combobox, Stack } from '@grafana/ui';
import { EditorSwitch } from '@grafana/plugin-ui';

import { optionTexts } from '../labels';
import { durations, ViewSpec } from '../query/kinds';
import { chosenFirst, durationLabels, optionsOf } from '../query/labels';
import { zoneNamed, zoneOptions } from '../query/zones';
import { hasVariable } from '../query/interpolate';
import { GpuQuery } from '../query/types';
import { maxLimit } from '../query/validation';
import { CommitInput } from './CommitInput';
import { EditorField } from './EditorField';

interface Props {
  id: string;
  query: GpuQuery;
  /** The options that the query's view supports. */
  spec: ViewSpec;
  onChange: (change: Partial<GpuQuery>) => void;
  asCommandLine: () => string;
}

/** The options that are times in minutes. */
const minuteFields = [
  { option: 'overheadMinutes', label: 'Checkpoint overhead', tooltip: optionTexts.overheadMinutes, min: 0 },
  { option: 'withinMinutes', label: 'Started within', tooltip: optionTexts.withinMinutes, min: 1, max: 10080 },
  { option: 'shortMinutes', label: 'Failed within', tooltip: optionTexts.shortMinutes, min: 1, max: 1440 },
] as const;

/** The options that most queries leave alone. */
export function OptionFields({ id, query, spec, onChange, asCommandLine }: Props) {
  const [isOpen, setIsOpen] = useState(false);
  const shown = spec.options.filter((option) => option !== 'bucket');
  const defaultJobHours = spec.jobHours;
  const totals = query.totals ?? query.metrics?.length !== 1;
  return (
    <Collapse label="Options" isOpen={isOpen} onToggle={setIsOpen}>
      <Stack gap={2} wrap="wrap">
        {shown.includes('duration') && (
          <EditorField label="Duration" htmlFor={`${id}-duration`} tooltip={optionTexts.duration} width={20}>
            <Combobox
              id={`${id}-duration`}
              options={chosenFirst(optionsOf(durations, durationLabels), query.duration)}
              value={query.duration || null}
              placeholder={optionTexts.durationPlaceholder}
              isClearable
              onChange={(option) => onChange({ duration: option?.value })}
            />
          </EditorField>
        )}
        {shown.includes('timezone') && (
          <EditorField label="Time zone" htmlFor={`${id}-timezone`} tooltip={optionTexts.timezone} width={25}>
            <Combobox
              id={`${id}-timezone`}
              options={chosenFirst(zoneOptions, query.timezone)}
              value={query.timezone || null}
              placeholder={optionTexts.timezonePlaceholder}
              isClearable
              createCustomValue
              onChange={(option) => onChange({ timezone: option ? zoneNamed(option.value) : undefined })}
            />
          </EditorField>
        )}
        {shown.includes('jobHours') && (
          <EditorField label="Job lengths" htmlFor={`${id}-jobHours`} tooltip={optionTexts.jobHours}>
            <CommitInput
              id={`${id}-jobHours`}
              width={20}
              placeholder={defaultJobHours?.join(', ') ?? 'Default'}
              value={query.jobHours?.join(', ') ?? ''}
              onCommit={(text) => onChange({ jobHours: lengthsIn(text) })}
            />
          </EditorField>
        )}
        {minuteFields.map(
          ({ option, label, tooltip, ...bounds }) =>
            shown.includes(option) && (
              <EditorField key={option} label={label} htmlFor={`${id}-${option}`} tooltip={tooltip}>
                <CommitInput
                  id={`${id}-${option}`}
                  type="number"
                  {...bounds}
                  width={14}
                  placeholder="Default"
                  value={query[option] === undefined ? '' : String(query[option])}
                  onCommit={(text) => onChange({ [option]: text === '' ? undefined : Number(text) })}
                />
              </EditorField>
            )
        )}
        {shown.includes('legend') && (
          <EditorField label="Legend" htmlFor={`${id}-legend`} tooltip={optionTexts.legend}>
            <CommitInput
              id={`${id}-legend`}
              width={25}
              placeholder="{{device}} {{metric}}"
              value={query.legend ?? ''}
              onCommit={(text) => onChange({ legend: text })}
            />
          </EditorField>
        )}
        {shown.includes('limit') && (
          <EditorField label="Limit" htmlFor={`${id}-limit`} tooltip={optionTexts.limit}>
            <CommitInput
              id={`${id}-limit`}
              type="number"
              min={0}
              max={maxLimit}
              width={12}
              placeholder="Default"
              value={query.limit ? String(query.limit) : ''}
              onCommit={(text) => onChange({ limit: text === '' ? undefined : Number(text) })}
            />
          </EditorField>
        )}
        {shown.includes('last') && (
          <EditorField label="Last" htmlFor={`${id}-last`} tooltip={optionTexts.last}>
            <CommitInput
              id={`${id}-last`}
              width={12}
              placeholder="Time range"
              value={query.last ?? ''}
              onCommit={(text) => onChange({ last: text.trim() })}
            />
          </EditorField>
        )}
        {shown.includes('totals') && (
          <EditorField label="Totals" htmlFor={`${id}-totals`} tooltip={optionTexts.totals}>
            <EditorSwitch
              id={`${id}-totals`}
              value={totals}
              onChange={(event) => onChange({ totals: event.currentTarget.checked })}
            />
          </EditorField>
        )}
        {shown.includes('previous') && (
          <EditorField label="Period before" htmlFor={`${id}-previous`} tooltip={optionTexts.previous}>
            <EditorSwitch
              id={`${id}-previous`}
              value={query.previous ?? false}
              onChange={(event) => onChange({ previous: event.currentTarget.checked })}
            />
          </EditorField>
        )}
        {shown.includes('completeBucketsOnly') && (
          <EditorField
            label="Complete buckets only"
            htmlFor={`${id}-completeBucketsOnly`}
            tooltip={optionTexts.completeBucketsOnly}
          >
            <EditorSwitch
              id={`${id}-completeBucketsOnly`}
              value={query.completeBucketsOnly ?? false}
              onChange={(event) => onChange({ completeBucketsOnly: event.currentTarget.checked })}
            />
          </EditorField>
        )}
        {shown.includes('includeOldDevices') && (
          <EditorField
            label="Include old devices"
            htmlFor={`${id}-includeOldDevices`}
            tooltip="Includes GTX 1080, P100, Quadro, A30 and A40"
          >
            <EditorSwitch
              id={`${id}-includeOldDevices`}
              value={query.includeOldDevices ?? true}
              onChange={(event) => onChange({ includeOldDevices: event.currentTarget.checked })}
            />
          </EditorField>
        )}
        <EditorField
          label="Command line"
          htmlFor={`${id}-commandLine`}
          tooltip="Runs the same query in a shell (gpureports query)"
        >
          <ClipboardButton id={`${id}-commandLine`} variant="secondary" icon="copy" getText={asCommandLine}>
            Copy as command line
          </ClipboardButton>
        </EditorField>
      </Stack>
    </Collapse>
  );
}

/** The variables in a text, then its positive numbers, ascending; each once. */
function lengthsIn(text: string): Array<number | string> {
  const entries = text.split(/[\s,;]+/);
  const numbers = entries.map(Number).filter((number) => number > 0);
  return [...new Set([...entries.filter(hasVariable), ...numbers.sort((a, b) => a - b)])];
}
