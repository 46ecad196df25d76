import { migrate } from './migration';
import { GpuQuery } from './types';

const query: GpuQuery = { refId: 'A', queryType: 'allocation' };

it.each([undefined, 0, 1])('takes version %s as it is', (version) => {
  const stored = { ...query, version };
  expect(migrate(stored)).toEqual(stored);
});

it('leaves a query from a newer plugin alone', () => {
  const newer = { ...query, version: 99 };
  expect(migrate(newer)).toBe(newer);
});
