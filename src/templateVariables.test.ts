import { interpolateFilter } from './query/interpolate';
import { templateVariables } from './templateVariables';
import { fakeTemplateSrv } from './test/templateSrv';

const srv = fakeTemplateSrv([
  { name: 'device', options: ['H200', 'A100', 'T4'], value: ['H200', 'A100'] },
  { name: 'machine', options: ['m1', 'm2'], value: 'm1' },
  { name: 'user', options: ['alice', 'bob'], value: ['$__all'] },
  { name: 'project', options: ['p', 'q'], value: '$__all', allValue: '/.*/' },
  { name: 'empty', options: [], value: [] },
  { name: 'text', options: [], value: '', type: 'textbox' },
  { name: 'chosen', options: [], value: '', type: 'query' },
]);
const fill = (values: string[], scopedVars = {}) =>
  interpolateFilter({ machines: values }, templateVariables(srv, scopedVars)).machines;

it('knows the values of one and of several', () => {
  expect(fill(['$machine'])).toEqual(['m1']);
  expect(fill(['${device:csv}'])).toEqual(['H200', 'A100']);
  expect(fill(['$empty'])).toEqual([]);
});

it('does not take a variable whose query found nothing for "All"', () => {
  expect(() => fill(['$chosen'])).toThrow('The variable chosen has no value in this time range.');
  expect(fill(['$text'])).toEqual(['']);
});

it('knows "All", and a custom value for it', () => {
  expect(fill(['$user'])).toEqual([]);
  expect(fill(['$project'])).toEqual(['/.*/']);
});

it('prefers a repeated panel\'s own value to the dashboard\'s "All"', () => {
  expect(fill(['$user'], { user: { value: 'alice', text: 'alice' } })).toEqual(['alice']);
});

it('makes alternatives of lists inside patterns', () => {
  expect(fill(['/^$device$/'])).toEqual(['/^(H200|A100)$/']);
});

it('leaves unknown variables', () => expect(fill(['$nowhere', '${gone:raw}'])).toEqual(['$nowhere', '${gone:raw}']));
