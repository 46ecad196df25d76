import { DataFrame, FieldType } from '@grafana/data';

import { withEvenGauges } from './gauges';

const column = (values: Array<number | null>, unit?: string) => ({
  name: 'n',
  type: FieldType.number,
  config: { unit },
  values,
});
const frame = (fields: DataFrame['fields'], shown?: 'table' | 'graph'): DataFrame => ({
  fields,
  length: fields[0].values.length,
  meta: { preferredVisualisationType: shown },
});

test('the longest text of each column of numbers and the padding of the cell set the room of the bars', () => {
  const texts = { name: 't', type: FieldType.string, config: {}, values: ['a', 'b', 'c'] };
  const [table] = withEvenGauges([frame([texts, column([903, 1007, null]), column([5, 42, 7], 'percent')], 'table')]);
  expect(table.fields.map(({ state }) => state?.alignmentFactors?.text)).toEqual([undefined, '1,00700', '100.0%00']);
});

test('series stay as they are', () => {
  const series = frame([column([1, 2])], 'graph');
  expect(withEvenGauges([series])).toEqual([series]);
});
