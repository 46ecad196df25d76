import { dateTime, TimeRange } from '@grafana/data';

import { atLeastADay } from './values';

const to = dateTime('2025-11-09T12:00:00Z');
const range = (minutes: number): TimeRange => {
  const from = dateTime(to).subtract(minutes, 'minutes');
  return { from, to, raw: { from, to } };
};

it('a short range is lengthened to a day, a longer one is kept', () => {
  expect(atLeastADay(range(10))?.from.toISOString()).toBe('2025-11-08T12:00:00.000Z');
  expect(atLeastADay(range(10))?.to.toISOString()).toBe('2025-11-09T12:00:00.000Z');
  const days = range(3 * 24 * 60);
  expect(atLeastADay(days)).toBe(days);
  expect(atLeastADay(undefined)).toBeUndefined();
});
