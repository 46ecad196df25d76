import { zoneNamed } from './zones';

test.each([
  ['Chicago', 'America/Chicago'],
  ['chicago', 'America/Chicago'],
  ['New York', 'America/New_York'],
  ['America/Chicago', 'America/Chicago'],
  ['Amsterd', 'Europe/Amsterdam'],
  ['Europe', 'Europe'], // several
  ['Etc/GMT+8', 'Etc/GMT+8'],
  ['', ''],
])('%j means %s', (typed, zone) => {
  expect(zoneNamed(typed)).toBe(zone);
});
