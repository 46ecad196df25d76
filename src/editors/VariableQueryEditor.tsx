import React, { useId } from 'react';
import { QueryEditorProps } from '@grafana/data';
import { Combobox } from '@grafana/ui';
import { EditorField, EditorRow, EditorRows } from '@grafana/plugin-ui';

import type { DataSource } from '../datasource';
import { fitFilter } from '../query/defaults';
import { dimensionOf, dimensions, filterFields } from '../query/kinds';
import { dimensionLabels, optionsOf } from '../query/labels';
import { FilterField, GpuQuery, VariableQuery } from '../query/types';
import { GpuSettings } from '../settings';
import { FilterFields } from './FilterFields';

type Props = QueryEditorProps<DataSource, GpuQuery, GpuSettings, VariableQuery>;

/** The editor of a dashboard variable: which values, and under which filter. */
export function VariableQueryEditor({ datasource, query, onChange, range }: Props) {
  const id = useId();
  const { dimension } = query;

  const change = (fields: Partial<VariableQuery>) => {
    const changed = { ...query, ...fields };
    onChange({
      ...changed,
      refId: query.refId || 'GpuReportsVariable',
      filter: fitFilter(changed.filter, fieldsBeside(changed.dimension)),
    });
  };

  return (
    <EditorRows>
      <EditorRow>
        <EditorField label="Values of" htmlFor={`${id}-dimension`} width={26}>
          <Combobox
            id={`${id}-dimension`}
            options={optionsOf(dimensions, dimensionLabels)}
            value={dimension ?? null}
            placeholder="Choose"
            onChange={({ value }) => change({ dimension: value })}
          />
        </EditorField>
      </EditorRow>
      {dimension && (
        <EditorRow>
          <FilterFields
            id={id}
            datasource={datasource}
            fields={fieldsBeside(dimension)}
            filter={query.filter ?? {}}
            onChange={(filter) => change({ filter })}
            range={range}
            variables
          />
        </EditorRow>
      )}
    </EditorRows>
  );
}

/** The filter fields that can narrow a dimension: all but its own. */
function fieldsBeside(dimension: string | undefined): FilterField[] {
  return filterFields.filter((field) => dimensionOf[field] !== dimension);
}
