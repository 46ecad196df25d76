import { filtered, hasFilter, narrowed, toggled, unusedFields, withAdHocFilters } from './adhoc';
import { GpuQuery } from './types';

const adHoc = (key: string, operator: string, value = '', values?: string[]) => ({ key, operator, value, values });
const query: GpuQuery = { refId: 'A', queryType: 'evictions' };

describe('an ad-hoc filter', () => {
  it.each([
    ['=', 'A', undefined, ['A']],
    ['!=', 'A', undefined, ['!A']],
    ['=', '!A', undefined, ['\\!A']],
    ['!=', '!A', undefined, ['!!A']],
    ['=|', 'A', ['A', 'B'], ['A', 'B']],
    ['!=|', 'A', ['A', 'B'], ['!A', '!B']],
    ['=~', 'H.00', undefined, ['/H.00/']],
    ['!~', '/H.00/', undefined, ['!/H.00/']],
  ])('device %s %s is an entry', (operator, value, values, entries) => {
    expect(narrowed({}, [adHoc('device', operator, value, values)])).toEqual({ devices: entries });
    expect(narrowed({}, [adHoc('devices', operator, value, values)])).toEqual({ devices: entries });
  });

  it('knows GPUs without a project', () => {
    expect(narrowed({}, [adHoc('project', '=', '')])).toEqual({ projects: ['/^$/'] });
    expect(narrowed({}, [adHoc('project', '!=', 'No project')])).toEqual({ projects: ['!/^$/'] });
  });

  it('is named where a view does not know its field', () => {
    const filters = [adHoc('user', '=', 'a'), adHoc('device', '=', 'b'), adHoc('color', '=', 'c')];
    expect(unusedFields({ refId: 'A', queryType: 'allocation', view: 'changes' }, filters)).toEqual(['users']);
    expect(unusedFields(query, filters)).toEqual([]);
  });

  it('refuses an operator that makes no sense of names', () => {
    expect(() => narrowed({}, [adHoc('device', '<', 'A')])).toThrow('"<" isn\'t supported for');
  });

  it.each([
    [['A', 'B', '!C'], adHoc('device', '=', 'A'), ['A', '!C']],
    [['/^A/', 'B'], adHoc('device', '=|', '', ['A1', 'C']), ['A1']],
    [['A1', 'B'], adHoc('device', '=~', '^A'), ['A1']],
    [['A'], adHoc('device', '=', 'B'), ['B', '!B']],
    [['A'], adHoc('device', '!=', 'B'), ['A', '!B']],
    [['!A'], adHoc('device', '=', 'B'), ['B', '!A']],
  ])('narrows %j by %j', (devices, filter, entries) => {
    expect(narrowed({ devices }, [filter])).toEqual({ devices: entries });
  });

  it('says which two patterns it cannot narrow', () => {
    expect(() => narrowed({ devices: ['/A/'] }, [adHoc('device', '=~', 'B')])).toThrow('patterns /B/ and /A/');
  });

  it('counts in all views that know its field', () => {
    const filters = [adHoc('user', '=', 'ann'), adHoc('job', '=', 'x'), adHoc('machine', '!=', 'm')];
    expect(withAdHocFilters(query, filters).filter).toEqual({ users: ['ann'], machines: ['!m'] });
    const free = { ...query, queryType: 'allocation', metrics: ['free'] };
    expect(withAdHocFilters(free, filters).filter).toEqual({ machines: ['!m'] });
    const health = { ...query, queryType: 'allocation', view: 'health' };
    expect(withAdHocFilters(health, filters)).toBe(health);
  });
});

describe('filter for and out', () => {
  const pair = { key: 'device', value: 'A' };

  it('chooses a value or leaves it out, one instead of the other', () => {
    const chosen = filtered(query, pair);
    expect(chosen.filter).toEqual({ devices: ['A'] });
    expect([hasFilter(chosen, pair), hasFilter(chosen, pair, true)]).toEqual([true, false]);
    const out = filtered(chosen, pair, true);
    expect(out.filter).toEqual({ devices: ['!A'] });
    expect([hasFilter(out, pair), hasFilter(out, pair, true)]).toEqual([false, true]);
  });

  it('toggles', () => {
    expect(toggled(toggled(query, pair), pair).filter).toEqual({ devices: [] });
    expect(toggled(toggled(query, pair, true), pair).filter).toEqual({ devices: ['A'] });
  });

  it('leaves a query alone whose view does not know the field', () => {
    expect(filtered(query, { key: 'hours', value: '3' })).toBe(query);
  });
});
