import { groupByKeys, keysApplicability, recommendedKeys, regrouped } from './groupBy';
import { kindsOf } from './kinds';
import { GpuQuery } from './types';

const hours: GpuQuery = { refId: 'A', queryType: 'userHours', view: 'timeseries', groupBy: ['user'] };
const health: GpuQuery = { refId: 'B', queryType: 'allocation', view: 'health' };
const failures: GpuQuery = { refId: 'C', queryType: 'utilization', view: 'failures' };

describe('groupings of a dashboard', () => {
  it('are those of its queries, with labels', () => {
    const keys = groupByKeys([hours, health], 'pool');
    expect(keys.map(({ value }) => value)).toEqual(kindsOf.pool.userHours.views.timeseries.groupBy);
    expect(keys).toContainEqual({ text: 'Device', value: 'device' });
    expect(groupByKeys([health], 'pool')).toEqual([]);
  });

  it('are all that the mode has without queries', () => {
    const values = (mode: 'pool' | 'fleet') => groupByKeys(undefined, mode).map(({ value }) => value);
    expect(values('pool')).toEqual(expect.arrayContaining(['device', 'takenOverBy', 'obstacle']));
    expect(values('pool')).not.toContain('pool');
    expect(values('fleet')).toContain('pool');
    expect(values('fleet')).not.toContain('machine');
  });

  it('are recommended if they are possible and not chosen yet', () => {
    expect(recommendedKeys([hours], [], 'pool')).toEqual(['device', 'project', 'user']);
    expect(recommendedKeys([hours], ['device'], 'pool')).toEqual(['project', 'user']);
    expect(recommendedKeys([health], [], 'pool')).toEqual([]);
  });

  it('apply where a view has them, with a reason where none has', () => {
    expect(keysApplicability(['device', 'cause'], [hours, health], 'pool')).toEqual([
      { key: 'device', applicable: true },
      { key: 'cause', applicable: false, reason: 'These figures cannot be grouped by Cause.' },
    ]);
  });
});

describe('a chosen grouping', () => {
  it('replaces that of a query', () => {
    expect(regrouped(hours, ['device', 'project'], 'pool')).toEqual({ ...hours, groupBy: ['device', 'project'] });
  });

  it('leaves out keys that the view does not have, and a query without any as it is', () => {
    expect(regrouped(hours, ['cause', 'device'], 'pool').groupBy).toEqual(['device']);
    expect(regrouped(hours, ['cause'], 'pool')).toBe(hours);
    expect(regrouped(hours, [], 'pool')).toBe(hours);
    expect(regrouped(health, ['device'], 'pool')).toBe(health);
    expect(regrouped({ refId: 'A' }, ['device'], 'pool')).toEqual({ refId: 'A' });
  });

  it('is only one that the view allows', () => {
    expect(regrouped(failures, ['machine'], 'pool').groupBy).toEqual(['machine']);
    expect(regrouped(failures, ['gpu'], 'pool')).toBe(failures);
  });

  it('drops a template of names that needs another grouping', () => {
    const named = { ...hours, legend: '{{user}} {{metric}}' };
    expect(regrouped(named, ['device'], 'pool')).not.toHaveProperty('legend');
    expect(regrouped(named, ['device', 'user'], 'pool').legend).toBe(named.legend);
    expect(regrouped({ ...hours, legend: '{{metric}}' }, ['device'], 'pool').legend).toBe('{{metric}}');
  });
});
