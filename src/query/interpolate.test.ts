import { hasVariable, interpolate, interpolateFilter, Variables } from './interpolate';
import { GpuQuery } from './types';

const known: Record<string, string[] | 'all'> = {
  device: ['NVIDIA H200', 'NVIDIA A100'],
  machine: ['gpu1.example.org'],
  user: 'all',
  none: [],
};

const variables: Variables = {
  values: (name) => known[name],
  replace: (text) => text.replace(/\$(\w+)/g, (match, name) => (known[name] ? [known[name]].flat().join('|') : match)),
};

const query: GpuQuery = { refId: 'A', queryType: 'allocation' };

describe('interpolate', () => {
  it('makes lists of multi-value variables', () => {
    const filter = { devices: ['$device', 'Tesla T4'], machines: ['${machine}'], projects: ['[[device:raw]]'] };
    expect(interpolate({ ...query, filter }, variables).filter).toEqual({
      devices: ['NVIDIA H200', 'NVIDIA A100', 'Tesla T4'],
      machines: ['gpu1.example.org'],
      projects: ['NVIDIA H200', 'NVIDIA A100'],
    });
  });

  it('makes numbers of the lengths of jobs', () => {
    const lengths = { ...variables, values: (name: string) => (name === 'hours' ? ['6', '24'] : undefined) };
    expect(interpolate({ ...query, jobHours: [1, '$hours', '$other'] }, lengths).jobHours).toEqual([
      1,
      6,
      24,
      '$other',
    ]);
  });

  it('takes a list with "All" in it as empty, which means all', () => {
    expect(interpolateFilter({ users: ['alice', '$user'] }, variables)).toEqual({ users: [] });
  });

  it('keeps the exclusions of a list with "All" in it', () => {
    const users = ['$user', '!bob@example.org', 'alice', '!$device', '!/^test/'];
    expect(interpolateFilter({ users }, variables)).toEqual({
      users: ['!bob@example.org', '!NVIDIA H200', '!NVIDIA A100', '!/^test/'],
    });
  });

  it('excludes each value of a variable, and nothing for "All"', () => {
    expect(interpolateFilter({ devices: ['!$device'], users: ['bob', '!$user'] }, variables)).toEqual({
      devices: ['!NVIDIA H200', '!NVIDIA A100'],
      users: ['bob'],
    });
  });

  it('takes a variable without a value as nothing', () => {
    expect(interpolateFilter({ users: ['$none'] }, variables)).toEqual({ users: [] });
  });

  it('names each value once', () => {
    expect(interpolateFilter({ devices: ['NVIDIA A100', '$device'] }, variables)).toEqual({
      devices: ['NVIDIA A100', 'NVIDIA H200'],
    });
  });

  it('replaces variables inside a text or a pattern', () => {
    expect(interpolateFilter({ machines: ['/^($machine)$/', 'x.$machine'] }, variables)).toEqual({
      machines: ['/^(gpu1.example.org)$/', 'x.gpu1.example.org'],
    });
  });

  it('leaves unknown variables for the backend to name', () => {
    expect(interpolateFilter({ machines: ['$nowhere'] }, variables)).toEqual({ machines: ['$nowhere'] });
  });

  it('fills groupings, metrics, bucket, time zone and duration', () => {
    known.by = ['device', 'machine'];
    known.one = ['1h'];
    const filled = interpolate(
      {
        ...query,
        groupBy: ['$by'],
        metrics: ['$by'],
        bucket: '$one',
        timezone: '$one',
        duration: '$one',
        legend: '$one {{device}}',
      },
      variables
    );
    expect(filled).toMatchObject({
      groupBy: ['device', 'machine'],
      metrics: ['device', 'machine'],
      bucket: '1h',
      timezone: '1h',
      duration: '1h',
      legend: '1h {{device}}',
    });
  });

  it('changes neither its argument nor a query without variables', () => {
    const plain: GpuQuery = Object.freeze({ ...query, groupBy: Object.freeze(['category']) as string[], filter: {} });
    expect(interpolate(plain, variables)).toEqual(plain);
  });
});

it.each([
  ['$a', true],
  ['${a}', true],
  ['${a:raw}', true],
  ['[[a]]', true],
  ['x-$a-y', true],
  ['/$a/', true],
  ['/H200$/', false],
  ['/a$|b/', false],
  ['/[[:alpha:]]/', false],
  ['/[[a]]/', false],
  ['5$', false],
  ['plain', false],
])('hasVariable(%s) is %s', (text, expected) => expect(hasVariable(text)).toBe(expected));
