import { settingInputs, SettingsEditorProps } from './settingInputs';

type Options = SettingsEditorProps['options'];

/** A form whose changes are kept. */
function form(uid: string, jsonData: Options['jsonData'], url = '') {
  const kept = { options: { uid, url, jsonData, secureJsonData: {}, secureJsonFields: {} } as unknown as Options };
  const onOptionsChange = (options: Options) => {
    kept.options = options;
  };
  const change = (fields: Partial<Options['jsonData']>) =>
    settingInputs({ options: kept.options, onOptionsChange }).change(fields);
  return { kept, change };
}

describe('settingInputs', () => {
  const elasticsearch = {
    snapshotDir: '/d',
    jobs: 'elasticsearch',
    jobsIndex: 'htcondor-*',
    jobsEpochIndex: 'epochs',
  } as const;

  it('brings hidden settings back with their fields', () => {
    const { kept, change } = form('a', elasticsearch, 'https://es.example.org:9200');
    change({ jobs: 'sqlite' });
    expect(kept.options).toMatchObject({ url: '', jsonData: { snapshotDir: '/d', jobs: 'sqlite' } });
    expect(kept.options.jsonData).not.toHaveProperty('jobsIndex');
    change({ jobsPath: 'ads.db' });
    change({ jobs: 'elasticsearch' });
    expect(kept.options).toMatchObject({ url: 'https://es.example.org:9200', jsonData: elasticsearch });
    change({ mode: 'fleet' });
    change({ mode: 'pool' });
    expect(kept.options).toMatchObject({ url: 'https://es.example.org:9200', jsonData: elasticsearch });
    change({ jobs: 'sqlite' });
    expect(kept.options.jsonData.jobsPath).toBe('ads.db');
  });

  it('does not bring back what was removed, or what another data source has', () => {
    const { kept, change } = form('b', elasticsearch, 'https://es.example.org:9200');
    change({ jobsIndex: undefined });
    change({ jobs: 'none' });
    change({ jobs: 'elasticsearch' });
    expect(kept.options.jsonData.jobsIndex).toBeUndefined();
    const other = form('c', { snapshotDir: '/e' } as Options['jsonData']);
    other.change({ jobs: 'elasticsearch' });
    expect(other.kept.options).toMatchObject({ url: '', jsonData: { snapshotDir: '/e', jobs: 'elasticsearch' } });
    expect(other.kept.options.jsonData).not.toHaveProperty('jobsEpochIndex');
  });
});
