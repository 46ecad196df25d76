import React from 'react';
import {
  applyFieldOverrides,
  createTheme,
  DataFrame,
  Field,
  FieldColorModeId,
  FieldType,
  LoadingState,
  PanelData,
  TimeRange,
} from '@grafana/data';
import { LegendDisplayMode, PanelChrome, Table, TimeSeries } from '@grafana/ui';

interface Props {
  data: PanelData;
  range: TimeRange;
}

const width = 1000;
const height = 300;

/** What a query answered, in Grafana's own panels: series as lines, everything else as tables. */
export function Answer({ data, range }: Props) {
  const frames = applyFieldOverrides({
    data: data.series.map((frame) => ({ ...frame, fields: frame.fields.map(inPaletteColor) })),
    fieldConfig: { defaults: {}, overrides: [] },
    replaceVariables: (text) => text,
    theme: createTheme(),
    timeZone: 'utc',
  });
  return (
    <section aria-label="Answer" data-state={data.state}>
      {data.state === LoadingState.Error && <p role="alert">{data.errors?.map(({ message }) => message).join(' ')}</p>}
      {frames.length > 0 && frames.every(isSeries) ? (
        <PanelChrome title="Time series" width={width} height={height}>
          {(innerWidth, innerHeight) => (
            <TimeSeries
              frames={frames}
              timeRange={range}
              timeZone="utc"
              width={innerWidth}
              height={innerHeight}
              legend={{ displayMode: LegendDisplayMode.List, placement: 'bottom', calcs: [], showLegend: true }}
            />
          )}
        </PanelChrome>
      ) : (
        frames
          .filter((frame) => frame.fields.length > 0)
          .slice(0, 3)
          .map((frame, index) => (
            <PanelChrome key={index} title="Table" width={width} height={height}>
              {(innerWidth, innerHeight) => <Table data={frame} width={innerWidth} height={innerHeight} />}
            </PanelChrome>
          ))
      )}
    </section>
  );
}

/** A panel's default; it comes from Grafana's application, not from the packages. */
function inPaletteColor(field: Field): Field {
  return { ...field, config: { color: { mode: FieldColorModeId.PaletteClassic }, ...field.config } };
}

function isSeries({ fields, meta }: DataFrame): boolean {
  return meta?.type === 'timeseries-multi' && fields.some(({ type }) => type === FieldType.number);
}
