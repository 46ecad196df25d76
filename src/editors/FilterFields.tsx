import React from 'react';
import { SelectableValue, TimeRange } from '@grafana/data';
import { EditorSwitch } from '@grafana/plugin-ui';

import { withoutField } from '../query/defaults';
import { noProject } from '../query/entries';
import { closedValues, dimensionOf, filterFields } from '../query/kinds';
import { filterLabels } from '../query/labels';
import { FilterField, QueryFilter } from '../query/types';
import { ValueSource } from '../query/values';
import { EditorField } from './EditorField';
import { EvenRow } from './EvenRow';
import { toOption, ValuesSelect } from './ValuesSelect';

interface Props {
  id: string;
  /** Where the values come from. */
  source: ValueSource;
  /** The filter fields to show. */
  fields: ReadonlyArray<keyof QueryFilter>;
  filter: QueryFilter;
  onChange: (filter: QueryFilter) => void;
  range?: TimeRange;
  /** References to dashboard variables, to be offered in addition to the values. */
  references: () => string[];
}

const known: Partial<Record<FilterField, Array<SelectableValue<string>>>> = { ...closedValues, projects: [noProject] };

/** The filter of a query: a multi-select for each field, with the pool's values under the other fields' filters. */
export function FilterFields({ id, source, fields, filter, onChange, range, references }: Props) {
  const load = async (field: FilterField): Promise<Array<SelectableValue<string>>> => {
    const dimension = dimensionOf[field];
    if (closedValues[field] || !dimension) {
      return closedValues[field] ?? [];
    }
    return (await source.values(dimension, withoutField(filter, field), range)).map(({ text, value }) =>
      value === undefined || value === text ? toOption(text) : { label: text, value: String(value) }
    );
  };

  return (
    <EvenRow>
      {filterFields
        .filter((field) => fields.includes(field))
        .map((field) => (
          <EditorField
            key={field}
            label={filterLabels[field].label}
            htmlFor={`${id}-${field}`}
            tooltip={[
              filterLabels[field].description,
              closedValues[field]
                ? 'Choose values; type ! to exclude them'
                : 'Choose values, or type a value or a /pattern/; a leading ! excludes',
            ].join('. ')}
          >
            <ValuesSelect
              inputId={`${id}-${field}`}
              value={filter[field] ?? []}
              onChange={(values) => onChange({ ...filter, [field]: values })}
              known={known[field]}
              load={() => load(field)}
              references={() => references().map((reference) => ({ value: reference, label: reference }))}
              allowCustomValue={!closedValues[field]}
              placeholder="All"
            />
          </EditorField>
        ))}
      {fields.includes('idle') && (
        <EditorField label={filterLabels.idle.label} htmlFor={`${id}-idle`} tooltip={filterLabels.idle.description}>
          <EditorSwitch
            id={`${id}-idle`}
            value={filter.idle ?? false}
            onChange={(event) => onChange({ ...filter, idle: event.currentTarget.checked })}
          />
        </EditorField>
      )}
    </EvenRow>
  );
}
