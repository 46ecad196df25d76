import { kindNames, kinds, kindsOf, KindSpec, Label, ViewSpec } from './kinds';
import schema from './schema.json';
import { QueryFilter } from './types';

/** The words of the query model as people read them, by kind where a word can mean different things in different kinds. */
export const kindLabels: Record<string, Label> = kinds;
export const viewLabels = byKind(({ views }) => views);
export const metricLabels = byKind(({ metrics }) => metrics);
export const groupByLabels: Record<string, Label> = schema.groupings;
export const filterLabels: Record<keyof QueryFilter, Label> = schema.filters;
export const dimensionLabels = byName(schema.dimensionWords);
export const durationLabels = byName(schema.durationWords);
export const bucketLabels = byName(schema.bucketWords);

/** The panels that draw a shape of answers. */
export const panelLabels: Record<ViewSpec['frame'], Label> = {
  'timeseries-multi': { label: 'Time series' },
  table: { label: 'Table' },
  'state-timeline': { label: 'State timeline' },
  survival: { label: 'Trend' },
  'heatmap-cells': { label: 'Heatmap' },
};

/** The words of a list as options of a Combobox, in the list's order; a word without a label is its own label. */
export function optionsOf(names: string[], labels: Record<string, Label> = {}): Array<Label & { value: string }> {
  return names.map((name) => {
    const { label, description } = labels[name] ?? { label: name };
    return { value: name, label, ...(description && { description }) };
  });
}

/**
 * The options with the chosen one first. Grafana's Combobox highlights the place of the chosen option in the whole list
 * even after a typed text shortened the list: Enter would take nothing and leave the field empty.
 */
export function chosenFirst<O extends { value: unknown }>(options: O[], chosen: O['value'] | null | undefined): O[] {
  const isChosen = ({ value }: O) => value === chosen;
  return [...options.filter(isChosen), ...options.filter((option) => !isChosen(option))];
}

/** Of a kind's words, those that only data sources of many pools know included. */
function byKind(labels: (kind: KindSpec) => Record<string, Label>): Record<string, Record<string, Label> | undefined> {
  const ofFleet = (name: string) => (kindsOf.fleet[name] ? labels(kindsOf.fleet[name]) : {});
  return Object.fromEntries(kindNames.map((name) => [name, { ...ofFleet(name), ...labels(kinds[name]) }]));
}

function byName(words: Array<Label & { name: string }>): Record<string, Label> {
  return Object.fromEntries(words.map(({ name, label, description }) => [name, { label, description }]));
}
