import { GpuSettings, shownOnly, usesElasticsearch } from './settings';

describe('settings whose fields are not shown', () => {
  const all: GpuSettings = {
    jobs: 'none',
    jobsPath: 'a.db',
    jobsIndex: 'i',
    jobsEpochIndex: 'e',
    snapshotDir: '/data',
  };

  it('are left out with the source of job ads that they belong to', () => {
    expect(shownOnly(all)).toEqual({ jobs: 'none', snapshotDir: '/data' });
    expect(shownOnly({ ...all, jobs: 'sqlite' })).toEqual({ jobs: 'sqlite', jobsPath: 'a.db', snapshotDir: '/data' });
    expect(shownOnly({ ...all, jobs: 'elasticsearch' })).toMatchObject({ jobsIndex: 'i', jobsEpochIndex: 'e' });
  });

  it('are left out of a data source of many pools', () => {
    expect(shownOnly({ ...all, mode: 'fleet', publishTo: { pool: 'CHTC' }, factsIndex: 'facts' })).toEqual({
      mode: 'fleet',
      factsIndex: 'facts',
    });
  });
});

it.each<[GpuSettings, boolean]>([
  [{}, false],
  [{ jobs: 'sqlite' }, false],
  [{ jobs: 'elasticsearch' }, true],
  [{ factsIndex: 'facts' }, true],
  [{ publishTo: { pool: 'CHTC' } }, true],
  [{ mode: 'fleet' }, true],
])('%j needs Elasticsearch: %s', (settings, needs) => expect(usesElasticsearch(settings)).toBe(needs));
