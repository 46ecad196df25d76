import React from 'react';
import { SelectableValue, TimeRange } from '@grafana/data';
import { EditorField, EditorSwitch } from '@grafana/plugin-ui';

import { DataSource } from '../datasource';
import { withoutField } from '../query/defaults';
import { categories, dimensionOf, filterFields, ownerships, slots } from '../query/kinds';
import { filterLabels } from '../query/labels';
import { FilterField, QueryFilter } from '../query/types';
import { ValuesSelect } from './ValuesSelect';

interface Props {
  id: string;
  datasource: DataSource;
  /** The filter fields to show. */
  fields: ReadonlyArray<keyof QueryFilter>;
  filter: QueryFilter;
  onChange: (filter: QueryFilter) => void;
  range?: TimeRange;
  /** Whether dashboard variables are offered. */
  variables: boolean;
}

const closed: Partial<Record<FilterField, Array<SelectableValue<string>>>> = {
  categories: categories.map(({ key, name }) => ({ value: key, label: name })),
  slots: slots.map(toOption),
  ownerships: ownerships.map(toOption),
};

/** The filter of a query: a multi-select for each field, with the pool's values under the other fields' filters. */
export function FilterFields({ id, datasource, fields, filter, onChange, range, variables }: Props) {
  const load = async (field: FilterField): Promise<Array<SelectableValue<string>>> => {
    const values =
      closed[field] ??
      (await datasource.values(dimensionOf[field], withoutField(filter, field), range)).map(({ text, value }) => ({
        label: text,
        value: String(value ?? text),
      }));
    return variables ? [...values, ...datasource.variableReferences().map(toOption)] : values;
  };

  return (
    <>
      {filterFields
        .filter((field) => fields.includes(field))
        .map((field) => (
          <EditorField
            key={field}
            label={filterLabels[field].label}
            htmlFor={`${id}-${field}`}
            tooltip={closed[field] ? filterLabels[field].description : 'Choose, or type a value or a /pattern/'}
          >
            <ValuesSelect
              inputId={`${id}-${field}`}
              value={filter[field] ?? []}
              onChange={(values) => onChange({ ...filter, [field]: values })}
              known={closed[field]}
              load={() => load(field)}
              allowCustomValue={!closed[field]}
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
    </>
  );
}

function toOption(value: string): SelectableValue<string> {
  return { value, label: value };
}
