import React, { useEffect, useId } from 'react';
import { AnnotationQuery, CoreApp, QueryEditorProps } from '@grafana/data';
import { Combobox, MultiCombobox } from '@grafana/ui';
import { EditorField, EditorRow, EditorRows, FlexItem } from '@grafana/plugin-ui';

import { DataSource } from '../datasource';
import { fit } from '../query/defaults';
import { buckets, filtersOf, groupByOf, kindNames, kinds, viewOf, ViewSpec } from '../query/kinds';
import { bucketLabels, groupByLabels, kindLabels, metricLabels, optionsOf, viewLabels } from '../query/labels';
import { migrate } from '../query/migration';
import { annotationPresets, applyPreset, presets } from '../query/presets';
import { GpuQuery } from '../query/types';
import { GpuSettings } from '../settings';
import { FilterFields } from './FilterFields';
import { OptionFields } from './OptionFields';
import { PresetMenu } from './PresetMenu';
import { QuerySummary } from './QuerySummary';

type Props = QueryEditorProps<DataSource, GpuQuery, GpuSettings> & {
  /** Set by Grafana where annotations are edited. */
  annotation?: AnnotationQuery<GpuQuery>;
};

/** The query editor of panels, Explore, alert rules and annotations. Every choice is saved and run at once. */
export function QueryEditor(props: Props) {
  const { app, datasource, onChange, onRunQuery, range } = props;
  const id = useId();
  const query = migrate(props.query);
  const found = viewOf(query);
  const inAlertRule = app === CoreApp.UnifiedAlerting || app === CoreApp.CloudAlerting;

  const save = (changed: GpuQuery) => {
    onChange(changed);
    onRunQuery();
  };
  const change = (fields: Partial<GpuQuery>) => save(fit({ ...query, ...fields }));

  // Grafana shows a new rule's default query, but previews and stores only what the editor has handed over.
  const isNewRule = inAlertRule && query.view === undefined;
  useEffect(() => {
    if (isNewRule) {
      onChange(fit(query));
    }
    // eslint-disable-next-line react-hooks/exhaustive-deps -- once
  }, [isNewRule]);

  return (
    <EditorRows>
      <EditorRow>
        <EditorField label="Kind" htmlFor={`${id}-kind`} width={26}>
          <Combobox
            id={`${id}-kind`}
            options={optionsOf(kindNames, kindLabels)}
            value={query.queryType ?? null}
            placeholder="Choose a kind, or a preset"
            onChange={({ value }) =>
              change({ queryType: value, view: undefined, groupBy: undefined, metrics: undefined })
            }
          />
        </EditorField>
        {found && (
          <EditorField label="View" htmlFor={`${id}-view`} width={22}>
            <Combobox
              id={`${id}-view`}
              options={optionsOf(Object.keys(kinds[found.kind].views), viewLabels[found.kind])}
              value={found.view}
              onChange={({ value }) => change({ view: value })}
            />
          </EditorField>
        )}
        <FlexItem grow={1} />
        <PresetMenu
          presets={props.annotation ? annotationPresets : presets}
          onSelect={(preset) => save(applyPreset(query, preset))}
        />
      </EditorRow>

      {found && (
        <>
          {hasShape(found.spec) && (
            <EditorRow>
              {found.spec.groupBy.length > 0 && (
                <EditorField label="Group by" htmlFor={`${id}-groupBy`}>
                  <MultiCombobox
                    id={`${id}-groupBy`}
                    options={optionsOf(found.spec.groupBy, groupByLabels)}
                    value={groupByOf(query)}
                    placeholder="All together"
                    isClearable
                    {...fixedWidth(36)}
                    onChange={(options) => change({ groupBy: options.map(({ value }) => value) })}
                  />
                </EditorField>
              )}
              {found.spec.metrics.length > 0 && (
                <EditorField label="Metrics" htmlFor={`${id}-metrics`}>
                  <MultiCombobox
                    id={`${id}-metrics`}
                    options={optionsOf(found.spec.metrics, metricLabels[found.kind])}
                    value={query.metrics ?? []}
                    placeholder={defaultMetricsText(found.kind, found.spec)}
                    isClearable
                    {...fixedWidth(44)}
                    onChange={(options) => change({ metrics: options.map(({ value }) => value) })}
                  />
                </EditorField>
              )}
              {found.spec.options.includes('bucket') && (
                <EditorField
                  label="Bucket"
                  htmlFor={`${id}-bucket`}
                  tooltip="Length of time that one point stands for"
                  width={16}
                >
                  <Combobox
                    id={`${id}-bucket`}
                    options={optionsOf(buckets, bucketLabels)}
                    value={query.bucket || 'auto'}
                    onChange={({ value }) => change({ bucket: value })}
                  />
                </EditorField>
              )}
            </EditorRow>
          )}
          {found.spec.filters.length > 0 && (
            <EditorRow>
              <FilterFields
                id={id}
                datasource={datasource}
                fields={filtersOf(query)}
                filter={query.filter ?? {}}
                onChange={(filter) => change({ filter })}
                range={range}
                variables={!inAlertRule}
              />
            </EditorRow>
          )}
          <OptionFields id={id} query={query} known={found.spec.options} onChange={change} />
        </>
      )}
      <QuerySummary query={query} inAlertRule={inAlertRule} />
    </EditorRows>
  );
}

/** A field of this width: what does not fit is shown as a number. (A mere `width` shows one value, however wide it is.) */
function fixedWidth(width: number) {
  return { width: 'auto', minWidth: width, maxWidth: width } as const;
}

/** Whether there is anything to choose beside filters and options. */
function hasShape(spec: ViewSpec): boolean {
  return spec.groupBy.length > 0 || spec.metrics.length > 0 || spec.options.includes('bucket');
}

/** What an empty choice of metrics means. */
function defaultMetricsText(kind: string, { metrics, defaultMetrics }: ViewSpec): string {
  return metrics.length === defaultMetrics.length
    ? 'All'
    : defaultMetrics.map((name) => metricLabels[kind][name]?.label ?? name).join(', ');
}
