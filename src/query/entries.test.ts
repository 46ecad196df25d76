import { entryOf, excludes, isPattern, isUsable, negated } from './entries';

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
