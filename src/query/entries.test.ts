import { containing, entryOf, entryOfTyped, excludes, isPattern, isUsable, matchesSome, negated } from './entries';

it('a pattern stands between slashes, whether it excludes or not', () => {
  expect(['/a/', '//', '/', 'a/', '/a', '!/a/', '!/', '!a/'].map(isPattern)).toEqual([
    true,
    true,
    false,
    false,
    false,
    true,
    false,
    false,
  ]);
});

it('an exclusion begins with "!", unless that is the value itself', () => {
  expect(['!a', 'a', '\\!a'].map(excludes)).toEqual([true, false, false]);
  expect(['!a', 'a', entryOf('!a')].map(negated)).toEqual(['a', '!a', '!!a']);
  expect(negated('!!a')).toBe(entryOf('!a'));
  expect([entryOf('a'), entryOf('!a')]).toEqual(['a', '\\!a']);
});

it.each([
  ['plain [', true],
  ['/H200$/', true],
  ['/(?i)h200|(?s:a.b)|(?P<name>x)/', true],
  ['/[[:alpha:]]\\pL/', true],
  ['!/gpu[12]/', true],
  ['/[/', false],
  ['!/(/', false],
  ['/a**/', false],
  ['/a(?=b)/', false],
  ['/a(?<!b)/', false],
  ['/(a)\\1/', false],
])('isUsable(%s) is %s', (entry, expected) => expect(isUsable(entry)).toBe(expected));

describe('a typed text', () => {
  const devices = ['NVIDIA H200', 'NVIDIA H200 NVL', 'NVIDIA A100'];

  it.each([
    ['H200', '/H200/'],
    ['!H200', '!/H200/'],
    ['NVIDIA H200', 'NVIDIA H200'],
    ['/^NVIDIA/', '/^NVIDIA/'],
    ['$device', '$device'],
    ['B200', 'B200'],
  ])('%s means %s', (typed, entry) => expect(entryOfTyped(typed, devices)).toBe(entry));

  it('is not read as a pattern', () => {
    expect(containing('A100 (80GB)')).toBe('/A100 \\(80GB\\)/');
    expect(containing('lab*.edu')).toBe('/^lab.*\\.edu$/');
    expect(entryOfTyped('lab*', ['lab1.edu', 'geo.edu'])).toBe('/^lab.*$/');
    expect(matchesSome(containing('A100 (80GB)'), ['NVIDIA A100 (80GB)'])).toBe(true);
  });
});

it.each([
  ['NVIDIA H200', true],
  ['H200', false],
  ['/H200/', true],
  ['!/H200/', true],
  ['!H200', false],
  ['/B200/', false],
  ['$device', true],
  ['/(?P<n>[/', true],
])('the entry %s matches some value: %s', (entry, matches) =>
  expect(matchesSome(entry, ['NVIDIA H200'])).toBe(matches)
);
