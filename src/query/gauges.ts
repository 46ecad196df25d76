import { DataFrame, Field, FieldType } from '@grafana/data';

/**
 * The frames of tables with the longest text of each column of numbers. Grafana gives the bar in a cell the room that
 * the longest text so far leaves, and so draws a bar of 903 longer than one of 1,007 if it comes first. It also takes
 * the cell for 12 pixels wider than it is, and so cuts the longest bars off: two digits more make up for that.
 */
export function withEvenGauges(frames: DataFrame[]): DataFrame[] {
  return frames.map((frame) =>
    frame.meta?.preferredVisualisationType === 'table' ? { ...frame, fields: frame.fields.map(measured) } : frame
  );
}

function measured(field: Field): Field {
  if (field.type !== FieldType.number) {
    return field;
  }
  const numbers = field.values.filter(Number.isFinite);
  const text = field.config.unit === 'percent' ? '100.0%' : Math.round(Math.max(0, ...numbers)).toLocaleString();
  return { ...field, state: { ...field.state, alignmentFactors: { title: '', text: `${text}00` } } };
}
