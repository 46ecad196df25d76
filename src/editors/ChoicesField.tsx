import React, { useId } from 'react';
import { MultiCombobox } from '@grafana/ui';

import { EditorField } from './EditorField';

interface Props {
  id: string;
  label: string;
  options: Array<{ value: string; label: string; description?: string }>;
  value: string[];
  placeholder: string;
  onChange: (value: string[]) => void;
}

/** A field of several words out of a list, in the order of choice. */
export function ChoicesField({ id, label, options, value, placeholder, onChange }: Props) {
  const labelId = useId();
  return (
    <EditorField label={label} htmlFor={id}>
      {/* Before Grafana 12.4 a MultiCombobox ignores its id, and with it the field's label. */}
      <span id={labelId} hidden>
        {label}
      </span>
      <MultiCombobox
        id={id}
        aria-labelledby={labelId}
        options={options}
        value={value}
        placeholder={placeholder}
        isClearable
        onChange={(chosen) => onChange(chosen.map((option) => option.value))}
      />
    </EditorField>
  );
}
