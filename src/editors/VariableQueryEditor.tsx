import React, { useId } from 'react';
import { QueryEditorProps } from '@grafana/data';
import { Combobox, Stack } from '@grafana/ui';
import { EditorRow } from '@grafana/plugin-ui';

import { describeVariable } from '../query/describe';
import { fitFilter } from '../query/defaults';
import { commonFields, dimensionOf, dimensionsOf } from '../query/kinds';
import { chosenFirst, dimensionLabels, optionsOf } from '../query/labels';
import { FilterField, GpuQuery, VariableQuery } from '../query/types';
import { GpuSource } from '../query/values';
import { GpuSettings, Mode } from '../settings';
import { EditorField } from './EditorField';
import { FilterFields } from './FilterFields';

type Props = QueryEditorProps<GpuSource, GpuQuery, GpuSettings, VariableQuery>;

/** The editor of a dashboard variable: which values, and under which filter. */
export function VariableQueryEditor({ datasource, query, onChange, range }: Props) {
  const id = useId();
  const { mode } = datasource;
  const { dimension } = query;

  const change = (fields: Partial<VariableQuery>) => {
    const chosen = { ...query, ...fields };
    const changed = { ...chosen, filter: fitFilter(chosen.filter, fieldsBeside(mode, chosen.dimension)) };
    onChange({ ...changed, refId: query.refId || 'GpuReportsVariable', query: describeVariable(changed) });
  };

  return (
    <Stack direction="column" gap={0.5}>
      <EditorRow>
        <EditorField label="Values of" htmlFor={`${id}-dimension`} width={26}>
          <Combobox
            id={`${id}-dimension`}
            options={chosenFirst(optionsOf(dimensionsOf[mode], dimensionLabels), dimension)}
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
            source={datasource}
            fields={fieldsBeside(mode, dimension)}
            filter={query.filter ?? {}}
            onChange={(filter) => change({ filter })}
            range={range}
            references={() => datasource.variableReferences(query)}
          />
        </EditorRow>
      )}
    </Stack>
  );
}

/** The filter fields that can narrow a dimension: the common ones, except its own. */
function fieldsBeside(mode: Mode, dimension: string | undefined): FilterField[] {
  return commonFields(mode).filter((field) => dimensionOf[field] !== dimension);
}
