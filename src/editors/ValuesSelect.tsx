import React, { useRef, useState } from 'react';
import { SelectableValue } from '@grafana/data';
// MultiCombobox forgets the typed text on Enter and on blur; free text and patterns need it kept.
import { FieldValidationMessage, MultiSelect } from '@grafana/ui';

import { containing, entryOf, entryOfTyped, excludes, isPattern, matchesSome, named, negated } from '../query/entries';
import { valuesTexts } from '../labels';

type Option = SelectableValue<string>;

interface Props {
  inputId: string;
  value: string[];
  onChange: (value: string[]) => void;
  /** Entries whose names are known before the menu is opened. */
  known?: Option[];
  /** The values to choose from; requested when the menu opens, never while typing. */
  load: () => Promise<Option[]>;
  /** Entries that are offered in addition to the values, even if these cannot be loaded. */
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
  const [loaded, setLoaded] = useState<string[]>();
  const [text, setText] = useState('');
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
      const found = await load();
      show(found);
      setLoaded(found.flatMap((option) => (option.value === undefined ? [] : named(option.value))));
    } catch (error) {
      setLoaded(undefined);
      show([{ label: valuesTexts.failed(messageOf(error)), isDisabled: true }, ...known]);
    }
  };

  const takeTyped = () => {
    const text = typed.current.trim();
    const entry = entryOfTyped(text, loaded ?? []);
    if (allowCustomValue && text !== '' && !value.includes(entry)) {
      onChange([...value, entry]);
    }
    typed.current = '';
    setText('');
    setIsExcluding(false);
  };

  // Variables are above: nothing moves under the mouse when the values come. After the values that fit a typed text
  // comes the pattern for all that contain it, and last the text itself.
  const options = [...references(), ...values, ...(allowCustomValue ? patternOption(text, loaded) : [])];
  const unmatched = loaded && allowCustomValue ? value.filter((entry) => !matchesSome(entry, loaded)) : [];
  return (
    <div>
      {/* eslint-disable-next-line @typescript-eslint/no-deprecated */}
      <MultiSelect<string>
        inputId={inputId}
        value={value.map((entry) => optionOf(entry, [...options, ...known]))}
        options={isExcluding ? options.map(excluding) : options}
        onChange={(chosen) => onChange(chosen.flatMap((option) => option.value ?? []))}
        onOpenMenu={open}
        onInputChange={(text, { action }) => {
          typed.current = action === 'input-change' ? text : '';
          setText(typed.current.trim());
          setIsExcluding(excludes(typed.current));
        }}
        onBlur={takeTyped}
        isLoading={loading}
        noOptionsMessage={allowCustomValue ? valuesTexts.typeOne : valuesTexts.none}
        allowCustomValue={allowCustomValue}
        allowCreateWhileLoading
        formatCreateLabel={valuesTexts.exact}
        createOptionPosition="last"
        closeMenuOnSelect={false}
        blurInputOnSelect={false}
        isClearable
        placeholder={placeholder}
        disabled={disabled}
      />
      {unmatched.length > 0 && (
        <FieldValidationMessage>{valuesTexts.unmatched(unmatched.map(named))}</FieldValidationMessage>
      )}
    </div>
  );
}

/** The option that chooses, or excludes, all values that contain a typed text; none if no value does. */
function patternOption(typed: string, values: string[] = []): Option[] {
  const text = named(typed);
  return text === '' || isPattern(text) || !matchesSome(containing(text), values)
    ? []
    : [{ value: containing(text), label: excludes(typed) ? valuesTexts.contained(text) : valuesTexts.contains(text) }];
}

/** The option that excludes the value of another, offered once `!` is typed. */
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
