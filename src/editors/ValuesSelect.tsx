import React, { useRef, useState } from 'react';
import { SelectableValue } from '@grafana/data';
// MultiCombobox forgets on Enter and on blur what was typed; free text and patterns need it kept.
import { MultiSelect } from '@grafana/ui';

import { entryOf, excludes, negated } from '../query/entries';

type Option = SelectableValue<string>;

interface Props {
  inputId: string;
  value: string[];
  onChange: (value: string[]) => void;
  /** Entries whose names are known before the menu is opened. */
  known?: Option[];
  /** The values to choose from; asked for when the menu opens, never while typing. */
  load: () => Promise<Option[]>;
  /** Entries that are offered beside the values, whatever becomes of these. */
  references: () => Option[];
  /** Whether a value may be typed that is not offered. */
  allowCustomValue: boolean;
  placeholder: string;
  disabled?: boolean;
}

/** Several entries of a filter: chosen from the pool's own values, or typed and taken over on Enter or blur. */
export function ValuesSelect({
  inputId,
  value,
  onChange,
  known = [],
  load,
  references,
  allowCustomValue,
  placeholder,
  disabled,
}: Props) {
  const [values, setValues] = useState(known);
  const [loading, setLoading] = useState(false);
  const [isExcluding, setIsExcluding] = useState(false);
  const typed = useRef('');
  const loads = useRef(0);

  const open = async () => {
    const mine = ++loads.current;
    const show = (shown: Option[]) => {
      // A slow answer must not take the place of a later one.
      if (mine === loads.current) {
        setValues(shown);
        setLoading(false);
      }
    };
    setLoading(true);
    try {
      show(await load());
    } catch (error) {
      show([{ label: `The values could not be loaded: ${messageOf(error)}`, isDisabled: true }, ...known]);
    }
  };

  const takeTyped = () => {
    const text = typed.current.trim();
    if (allowCustomValue && text !== '' && !value.includes(text)) {
      onChange([...value, text]);
    }
    typed.current = '';
    setIsExcluding(false);
  };

  // Variables are above: nothing moves under the mouse when the values come.
  const options = [...references(), ...values];
  return (
    // eslint-disable-next-line @typescript-eslint/no-deprecated
    <MultiSelect<string>
      inputId={inputId}
      value={value.map((entry) => optionOf(entry, [...options, ...known]))}
      options={isExcluding ? options.map(excluding) : options}
      onChange={(chosen) => onChange(chosen.flatMap((option) => option.value ?? []))}
      onOpenMenu={open}
      onInputChange={(text, { action }) => {
        typed.current = action === 'input-change' ? text : '';
        setIsExcluding(excludes(typed.current));
      }}
      onBlur={takeTyped}
      isLoading={loading}
      noOptionsMessage={allowCustomValue ? 'No values found: type one' : 'No values found'}
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

/** The option that excludes what another chooses: what is offered once `!` is typed. */
function excluding(option: Option): Option {
  return option.value === undefined
    ? option
    : { ...option, value: negated(option.value), label: `!${option.label ?? option.value}` };
}

/** An entry by its name, which is known of the values that were offered. */
function optionOf(entry: string, options: Option[]): Option {
  return (
    options.find(({ value }) => value === entry) ??
    options.map(excluding).find(({ value }) => value === entry) ?? { value: entry, label: entry }
  );
}

/** The option that chooses exactly this value. */
export function toOption(value: string, label = value): Option {
  return { value: entryOf(value), label };
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
