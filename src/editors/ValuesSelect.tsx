import React, { useRef, useState } from 'react';
import { SelectableValue } from '@grafana/data';
// MultiCombobox forgets on Enter and on blur what was typed; free text and patterns need it kept.
import { MultiSelect } from '@grafana/ui';

interface Props {
  inputId: string;
  value: string[];
  onChange: (value: string[]) => void;
  /** Values whose names are known before the menu is opened. */
  known?: Array<SelectableValue<string>>;
  /** The values to choose from; asked for when the menu opens, never while typing. */
  load: () => Promise<Array<SelectableValue<string>>>;
  /** Whether a value may be typed that is not offered. */
  allowCustomValue: boolean;
  placeholder: string;
  disabled?: boolean;
}

/** Several values of a dimension: chosen from the pool's own, or typed and taken over on Enter or blur. */
export function ValuesSelect({
  inputId,
  value,
  onChange,
  known = [],
  load,
  allowCustomValue,
  placeholder,
  disabled,
}: Props) {
  const [options, setOptions] = useState(known);
  const [loading, setLoading] = useState(false);
  const [failure, setFailure] = useState('');
  const typed = useRef('');

  const open = async () => {
    setLoading(true);
    setFailure('');
    try {
      setOptions(await load());
    } catch (error) {
      setOptions(known);
      setFailure(`The values could not be loaded: ${messageOf(error)}`);
    } finally {
      setLoading(false);
    }
  };

  const takeTyped = () => {
    const text = typed.current.trim();
    if (allowCustomValue && text !== '' && !value.includes(text)) {
      onChange([...value, text]);
    }
    typed.current = '';
  };

  return (
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    <MultiSelect<string>
      inputId={inputId}
      value={value}
      options={options}
      onChange={(chosen) => onChange(chosen.flatMap((option) => option.value ?? []))}
      onOpenMenu={open}
      onInputChange={(text, { action }) => {
        typed.current = action === 'input-change' ? text : '';
      }}
      onBlur={takeTyped}
      isLoading={loading}
      noOptionsMessage={failure || (allowCustomValue ? 'No values found: type one' : 'No values found')}
      allowCustomValue={allowCustomValue}
      allowCreateWhileLoading
      formatCreateLabel={(text) => `Use "${text}"`}
      createOptionPosition="first"
      closeMenuOnSelect={false}
      blurInputOnSelect={false}
      isClearable
      placeholder={placeholder}
      disabled={disabled}
      width="auto"
    />
  );
}

function messageOf(error: unknown): string {
  if (typeof error === 'object' && error !== null) {
    if ('data' in error && typeof error.data === 'object' && error.data !== null && 'message' in error.data) {
      return String(error.data.message);
    }
    if ('message' in error) {
      return String(error.message);
    }
  }
  return String(error);
}
