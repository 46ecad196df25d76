import React, { useEffect, useId, useRef } from 'react';
import { AnnotationQuery, CoreApp, QueryEditorProps } from '@grafana/data';
import { Combobox, Stack } from '@grafana/ui';
import { EditorRow, FlexItem } from '@grafana/plugin-ui';

import { queryTexts } from '../labels';
import { unpacked } from '../query/carried';
import { commandLine } from '../query/commandLine';
import { defaultQuery, fit, textOf, withUserMetric } from '../query/defaults';
import { bucketsOf, filtersOf, groupByOf, kindsOf, KindSpec, viewOf, ViewSpec } from '../query/kinds';
import {
  bucketLabels,
  chosenFirst,
  groupByLabels,
  kindLabels,
  metricLabels,
  optionsOf,
  viewLabels,
} from '../query/labels';
import { annotationPresets, answerable, applyPreset, presets } from '../query/presets';
import { GpuQuery } from '../query/types';
import { atLeastADay, GpuSource } from '../query/values';
import { GpuSettings } from '../settings';
import { ChoicesField } from './ChoicesField';
import { EditorField } from './EditorField';
import { EvenRow } from './EvenRow';
import { FilterFields } from './FilterFields';
import { OptionFields } from './OptionFields';
import { PresetMenu } from './PresetMenu';
import { QuerySummary } from './QuerySummary';

type Props = QueryEditorProps<GpuSource, GpuQuery, GpuSettings> & {
  /** Set by Grafana where annotations are edited. */
  annotation?: AnnotationQuery<GpuQuery>;
};

/** The query editor of panels, Explore, alert rules and annotations. Every choice is saved and run at once. */
export function QueryEditor(props: Props) {
  const { app, datasource, onChange, onRunQuery, range } = props;
  const id = useId();
  const { mode } = datasource;
  // Grafana runs a new query with the default under it, but hands the editor what is stored. Annotations have their own.
  const query = props.annotation ? props.query : { ...defaultQuery, ...unpacked(props.query) };
  const found = viewOf(query, mode);
  const inAlertRule = app === CoreApp.UnifiedAlerting || app === CoreApp.CloudAlerting;

  // A Combobox reports a choice again if its parent renders synchronously, as Explore does; that would never end.
  const handedOver = useRef<string>(undefined);
  const stored = textOf(props.query);
  useEffect(() => {
    if (handedOver.current !== stored) {
      handedOver.current = undefined;
    }
  }, [stored]);

  const save = (changed: GpuQuery) => {
    const text = textOf(changed);
    if (text !== handedOver.current) {
      handedOver.current = text;
      onChange(changed);
      onRunQuery();
    }
  };
  const change = (fields: Partial<GpuQuery>) => save(fit({ ...query, ...fields }, mode));
  const changeView = (fields: Partial<GpuQuery>) => save(withUserMetric(fit({ ...query, ...fields }, mode), mode));

  // Grafana shows a new rule's default query, but previews and stores only the query that the editor reported.
  const isNewRule = inAlertRule && props.query.view === undefined;
  useEffect(() => {
    if (isNewRule) {
      onChange(fit(query, mode));
    }
    // eslint-disable-next-line react-hooks/exhaustive-deps -- once
  }, [isNewRule]);

  return (
    // not plugin-ui's EditorRows: it wraps its rows, and browsers then make them as high as for another width
    <Stack direction="column" gap={0.5}>
      <EditorRow>
        <EditorField label={queryTexts.type} htmlFor={`${id}-kind`} width={26}>
          <Combobox
            id={`${id}-kind`}
            options={chosenFirst(optionsOf(Object.keys(kindsOf[mode]), kindLabels), query.queryType)}
            value={query.queryType ?? null}
            placeholder={queryTexts.typePlaceholder}
            onChange={({ value }) =>
              changeView({ queryType: value, view: undefined, groupBy: undefined, metrics: undefined })
            }
          />
        </EditorField>
        {found && (
          <EditorField label={queryTexts.view} htmlFor={`${id}-view`} width={22}>
            <Combobox
              id={`${id}-view`}
              options={chosenFirst(
                optionsOf(viewsOf(kindsOf[mode][found.kind], inAlertRule, found.view), viewLabels[found.kind]),
                found.view
              )}
              value={found.view}
              onChange={({ value }) => changeView({ view: value })}
            />
          </EditorField>
        )}
        <FlexItem grow={1} />
        <PresetMenu
          presets={answerable(props.annotation ? annotationPresets : presets, mode)}
          mode={mode}
          onSelect={(preset) => save(applyPreset(query, preset, mode))}
        />
      </EditorRow>
      <QuerySummary
        query={query}
        app={props.annotation ? undefined : app}
        inAlertRule={inAlertRule}
        range={range}
        sliceMinutes={datasource.sliceMinutes}
        mode={mode}
        panel={props.data?.request?.panelPluginId}
      />

      {found && (
        <>
          {hasShape(found.spec) && (
            <EditorRow>
              <EvenRow>
                {found.spec.groupBy.length > 0 && (
                  <ChoicesField
                    key={`groupBy of ${found.kind}`} // without a text that was typed for another kind
                    id={`${id}-groupBy`}
                    label={queryTexts.groupBy}
                    options={optionsOf(found.spec.groupBy, groupByLabels)}
                    value={groupByOf(query, mode)}
                    placeholder={queryTexts.noGrouping}
                    onChange={(groupBy) => change({ groupBy })}
                  />
                )}
                {found.spec.metrics.length > 0 && (
                  <ChoicesField
                    key={`metrics of ${found.kind}`}
                    id={`${id}-metrics`}
                    label={queryTexts.metrics}
                    options={optionsOf(found.spec.metrics, metricLabels[found.kind])}
                    value={query.metrics ?? []}
                    placeholder={defaultMetricsText(found.kind, found.spec)}
                    onChange={(metrics) => change({ metrics })}
                  />
                )}
                {found.spec.options.includes('bucket') && (
                  <EditorField label={queryTexts.bucket} htmlFor={`${id}-bucket`} tooltip={queryTexts.bucketTooltip}>
                    <Combobox
                      id={`${id}-bucket`}
                      options={chosenFirst(
                        optionsOf(bucketsOf(found.spec, datasource.sliceMinutes), bucketLabels),
                        query.bucket || 'auto'
                      )}
                      value={query.bucket || 'auto'}
                      onChange={({ value }) => change({ bucket: value })}
                    />
                  </EditorField>
                )}
              </EvenRow>
            </EditorRow>
          )}
          {found.spec.filters.length > 0 && (
            <EditorRow>
              <FilterFields
                id={id}
                source={datasource}
                fields={filtersOf(query, mode)}
                filter={query.filter ?? {}}
                onChange={(filter) => change({ filter })}
                range={inAlertRule ? atLeastADay(range) : range}
                references={() => (inAlertRule ? [] : datasource.variableReferences())}
              />
            </EditorRow>
          )}
          <OptionFields
            id={id}
            query={query}
            spec={found.spec}
            onChange={change}
            asCommandLine={() =>
              commandLine(datasource.interpolateVariablesInQueries?.([query], {})[0] ?? query, range)
            }
          />
        </>
      )}
    </Stack>
  );
}

/** Whether there is anything to choose apart from filters and options. */
function hasShape(spec: ViewSpec): boolean {
  return spec.groupBy.length > 0 || spec.metrics.length > 0 || spec.options.includes('bucket');
}

/** The meaning of an empty choice of metrics. */
function defaultMetricsText(kind: string, { metrics, defaultMetrics }: ViewSpec): string {
  return metrics.length === defaultMetrics.length
    ? 'All'
    : defaultMetrics.map((name) => metricLabels[kind]?.[name]?.label ?? name).join(', ');
}

/** The views of a kind; of an alert rule those that it can evaluate, and the one that it has. */
function viewsOf({ views }: KindSpec, inAlertRule: boolean, chosen: string): string[] {
  return Object.keys(views).filter((name) => !inAlertRule || views[name].alerting !== 'none' || name === chosen);
}
