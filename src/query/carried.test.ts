import { carrying, unpacked } from './carried';
import { GpuQuery } from './types';

const query: GpuQuery = {
  refId: 'B',
  queryType: 'evictions',
  view: 'summary',
  groupBy: [],
  filter: { devices: ['H200'] },
};

/** What Grafana 12.3 keeps of a query in a new alert rule. */
const kept = ({ refId, queryType, expression }: GpuQuery) => ({ refId, queryType, expression });

test('a query arrives whole where only few keys are kept', () => {
  expect(unpacked(kept(carrying(query)))).toEqual(query);
  expect(unpacked({ ...kept(carrying(query)), refId: 'A' })).toEqual({ ...query, refId: 'A' });
});

test('a whole query loses only the text, and carries no older one', () => {
  expect(unpacked(carrying(query))).toEqual(query);
  expect(carrying(carrying(query))).toEqual(carrying(query));
});

test.each(['', 'up == 0', '42', 'null'])('the expression %j of other origin is nothing', (expression) => {
  expect(unpacked({ refId: 'A', queryType: 'demand', expression })).toEqual({ refId: 'A', queryType: 'demand' });
});
