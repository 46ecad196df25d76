import React, { useState } from 'react';
import { DataSourceSettings } from '@grafana/data';
import { render, screen } from '@testing-library/react';
import userEvent, { PointerEventsCheckLevel } from '@testing-library/user-event';

import { GpuSecrets, GpuSettings } from '../settings';
import { ConfigEditor } from './ConfigEditor';

type Settings = DataSourceSettings<GpuSettings, GpuSecrets>;

let sources = 0;

function setup(jsonData: GpuSettings = {}, other: Partial<Settings> = {}) {
  let current = {
    id: 1,
    uid: `gpu${sources++}`,
    orgId: 1,
    name: 'GPU Reports',
    typeLogoUrl: '',
    type: 'chtc-gpureports-datasource',
    typeName: 'GPU Reports',
    access: 'proxy',
    url: '',
    user: '',
    basicAuth: false,
    basicAuthUser: '',
    isDefault: false,
    jsonData,
    secureJsonFields: {},
    readOnly: false,
    withCredentials: false,
    ...other,
  } as Settings;
  function Holder() {
    const [options, setOptions] = useState(current);
    return (
      <ConfigEditor
        options={options}
        onOptionsChange={(changed) => {
          current = changed;
          setOptions(changed);
        }}
      />
    );
  }
  render(<Holder />);
  return {
    user: userEvent.setup({ delay: null, pointerEventsCheck: PointerEventsCheckLevel.Never }),
    settings: () => current,
  };
}

describe('ConfigEditor', () => {
  it('has a section for each matter', () => {
    setup();
    const headings = screen.getAllByRole('heading').map((heading) => heading.textContent);
    expect(headings).toEqual(
      expect.arrayContaining(['Snapshots', 'Ownership, exclusions and tiers', 'Cache', 'Privacy', 'Jobs'])
    );
  });

  it.each<[RegExp, string, keyof GpuSettings, string | number]>([
    [/^Directory.*gpu_state/, '/data', 'snapshotDir', '/data'],
    [/^CHTC-owned machines/, 'own', 'chtcOwnedFile', 'own'],
    [/^Excluded hosts/, 'out.yaml', 'hostExclusionsFile', 'out.yaml'],
    [/^GPU tiers/, 'tiers.yaml', 'gpuTiersFile', 'tiers.yaml'],
    [/^GPU names/, 'names.yaml', 'gpuNamesFile', 'names.yaml'],
    [/^Project names/, 'projects.yaml', 'projectNamesFile', 'projects.yaml'],
    [/^Cache directory/, '/cache', 'cacheDir', '/cache'],
    [/^Memory/, '100', 'cacheMaxMB', 100],
    [/^Disk/, '200', 'cacheDiskMB', 200],
  ])('keeps %s', async (label, typed, field, value) => {
    const { user, settings } = setup();
    await user.type(screen.getByLabelText(label), typed);
    expect(settings().jsonData[field]).toBe(value);
    await user.clear(screen.getByLabelText(label));
    expect(settings().jsonData[field]).toBeUndefined();
  });

  it.each<[RegExp, string, keyof GpuSettings]>([
    [/^Snapshot bucket/, 's3://pool/a', 'snapshotBucket'],
    [/^Shared cache bucket/, 's3://pool/b', 'segmentBucket'],
    [/^Endpoint/, 'https://s3.example.com', 'bucketEndpoint'],
    [/^Region/, 'eu', 'bucketRegion'],
    [/^CA certificates/, 'pem', 'bucketCA'],
  ])('keeps %s of a bucket', async (label, typed, field) => {
    const { user, settings } = setup({ snapshotBucket: 's3://x' });
    await user.clear(screen.getByLabelText(label));
    expect(settings().jsonData[field]).toBeUndefined();
    await user.type(screen.getByLabelText(label), typed);
    expect(settings().jsonData[field]).toBe(typed);
  });

  it.each<[boolean, GpuSettings]>([
    [false, {}],
    [true, { snapshotBucket: 's3://x' }],
    [true, { snapshotDir: '/data', segmentBucket: 's3://x' }],
  ])('shows the buckets: %s', (shown, jsonData) => {
    setup(jsonData);
    expect(screen.queryAllByLabelText(/^Shared cache bucket/)).toHaveLength(shown ? 1 : 0);
  });

  it('keeps the keys to a bucket where Grafana encrypts them', async () => {
    const { user, settings } = setup({ snapshotBucket: 's3://x' }, { secureJsonFields: { bucketSecretKey: true } });
    await user.type(screen.getByLabelText(/^Access key/), 'key');
    expect(settings().secureJsonData).toEqual({ bucketAccessKey: 'key' });
    await user.click(screen.getByRole('button', { name: 'Reset' }));
    expect(settings().secureJsonFields).toEqual({ bucketAccessKey: false, bucketSecretKey: false });
    expect(settings().secureJsonData).toEqual({ bucketAccessKey: 'key', bucketSecretKey: '' });
    await user.click(screen.getByLabelText(/^Path-style access/));
    expect(settings().jsonData).toEqual({ snapshotBucket: 's3://x', bucketPathStyle: true });
  });

  it('shows the defaults without writing them down', () => {
    const { settings } = setup();
    expect(screen.getByLabelText(/^Slice/)).toHaveValue('15 minutes');
    expect(screen.getByLabelText(/^Time zone/)).toHaveValue('UTC');
    expect(screen.getByLabelText(/^Memory/)).toHaveAttribute('placeholder', '512');
    expect(screen.getByRole('radio', { name: 'None' })).toBeChecked();
    expect(settings().jsonData).toEqual({});
  });

  it('chooses the slice', async () => {
    const { user, settings } = setup();
    await user.click(screen.getByLabelText(/^Slice/));
    await user.click(await screen.findByRole('option', { name: 'Every snapshot' }));
    expect(settings().jsonData.sliceMinutes).toBe(0);
  });

  it('gives every control a name', () => {
    setup({ jobs: 'elasticsearch', timezone: [{ until: '', zone: 'UTC' }, { zone: 'UTC' }] });
    for (const role of ['textbox', 'combobox', 'radio', 'switch', 'spinbutton', 'button'] as const) {
      for (const control of screen.queryAllByRole(role)) {
        expect(control).toHaveAccessibleName();
      }
    }
  });

  it('changes nothing that was provisioned', () => {
    setup({ jobs: 'elasticsearch' }, { readOnly: true });
    for (const field of [/^Directory.*gpu_state/, /^Time zone/, /^Slice/, /^Excluded hosts/, /^History index/]) {
      expect(screen.getByLabelText(field)).toBeDisabled();
    }
  });
});

describe('the time zone', () => {
  it('is one zone', async () => {
    const { user, settings } = setup();
    await user.type(screen.getByLabelText(/^Time zone/), 'America/Chic');
    await user.click(await screen.findByRole('option', { name: 'America/Chicago' }));
    expect(settings().jsonData.timezone).toBe('America/Chicago');
  });

  it('is a list where it changed', async () => {
    const { user, settings } = setup({ timezone: 'UTC' });
    await user.click(screen.getByRole('radio', { name: 'Changed over time' }));
    await user.type(screen.getByLabelText('until'), '2026-05-14 00:00:00');
    expect(settings().jsonData.timezone).toEqual([{ until: '2026-05-14 00:00:00', zone: 'UTC' }, { zone: 'UTC' }]);
    await user.type(screen.getAllByLabelText('Zone')[0], 'America/Chic');
    await user.click(await screen.findByRole('option', { name: 'America/Chicago' }));
    await user.click(screen.getByRole('button', { name: 'Add zone change' }));
    expect(settings().jsonData.timezone).toEqual([
      { until: '2026-05-14 00:00:00', zone: 'America/Chicago' },
      { until: '', zone: 'UTC' },
      { zone: 'UTC' },
    ]);
    await user.click(screen.getByRole('button', { name: 'Remove zone 2' }));
    expect(settings().jsonData.timezone).toHaveLength(2);
    await user.click(screen.getByRole('radio', { name: 'Single zone' }));
    expect(settings().jsonData.timezone).toBe('UTC');
  });
});

describe('jobs', () => {
  it('shows only the fields of the chosen source', async () => {
    const { user, settings } = setup();
    expect(screen.queryByLabelText(/^Job file.*in the snapshot/)).not.toBeInTheDocument();
    await user.click(screen.getByRole('radio', { name: 'Job file' }));
    expect(settings().jsonData.jobs).toBe('sqlite');
    await user.type(screen.getByLabelText(/^Job file.*in the snapshot/), 'ads.db');
    expect(settings().jsonData.jobsPath).toBe('ads.db');
    expect(screen.queryByLabelText(/URL/)).not.toBeInTheDocument();
    await user.click(screen.getByRole('radio', { name: 'Elasticsearch' }));
    expect(screen.queryByLabelText(/^Job file.*in the snapshot/)).not.toBeInTheDocument();
    expect(screen.getByLabelText('Data source connection URL')).toBeInTheDocument();
  });

  it("keeps Elasticsearch's address and indices where Grafana keeps them", async () => {
    const { user, settings } = setup({ jobs: 'elasticsearch' });
    await user.type(screen.getByLabelText('Data source connection URL'), 'https://es.example.org:9200');
    await user.type(screen.getByLabelText(/^History index/), 'history-*');
    await user.type(screen.getByLabelText(/^Epoch index/), 'epochs-*');
    expect(settings().url).toBe('https://es.example.org:9200');
    expect(settings().jsonData).toMatchObject({ jobsIndex: 'history-*', jobsEpochIndex: 'epochs-*' });
  });

  it('keeps the password among the secrets', async () => {
    const { user, settings } = setup({ jobs: 'elasticsearch' }, { basicAuth: true, basicAuthUser: 'reader' });
    await user.type(screen.getByPlaceholderText('Password'), 'secret');
    expect(settings().secureJsonData).toEqual({ basicAuthPassword: 'secret' });
    expect(JSON.stringify(settings().jsonData)).not.toContain('secret');
  });
});

describe('privacy', () => {
  it('asks for a secret where viewers see pseudonyms, and keeps it among the secrets', async () => {
    const { user, settings } = setup();
    expect(screen.queryByLabelText(/^Secret/)).not.toBeInTheDocument();
    await user.click(screen.getByLabelText('Pseudonyms'));
    expect(settings().jsonData.userNames).toBe('pseudonyms');
    await user.type(screen.getByLabelText(/^Secret/), 'correct horse battery');
    expect(settings().secureJsonData).toEqual({ pseudonymSecret: 'correct horse battery' });
    await user.click(screen.getByRole('button', { name: 'Generate' }));
    expect(settings().secureJsonData?.pseudonymSecret).toMatch(/^[0-9a-f]{64}$/);
    expect(settings().jsonData).toEqual({ userNames: 'pseudonyms' });
  });

  it('shows that a secret is there, never which, until it is reset', async () => {
    const { user, settings } = setup({ userNames: 'pseudonyms' }, { secureJsonFields: { pseudonymSecret: true } });
    expect(screen.getByLabelText(/^Secret/)).toBeDisabled();
    expect(screen.queryByRole('button', { name: 'Generate' })).not.toBeInTheDocument();
    await user.click(screen.getByRole('button', { name: 'Reset' }));
    expect(settings().secureJsonFields).toEqual({ pseudonymSecret: false });
    expect(settings().secureJsonData).toEqual({ pseudonymSecret: '' });
  });
});

describe('publishing', () => {
  it('is of a name, and under another alias than the facts index if one is given', async () => {
    const { user, settings } = setup({ snapshotDir: '/data', factsIndex: 'all-facts' });
    expect(screen.queryByLabelText(/^Target index/)).not.toBeInTheDocument();
    await user.type(screen.getByLabelText(/^Pool name/), 'CHTC');
    expect(settings().jsonData.publishTo).toEqual({ pool: 'CHTC' });
    expect(screen.getByLabelText(/^Target index/)).toHaveAttribute('placeholder', 'all-facts');
    await user.type(screen.getByLabelText(/^Target index/), 'gpu-facts');
    expect(settings().jsonData).toEqual({
      snapshotDir: '/data',
      factsIndex: 'all-facts',
      publishTo: { pool: 'CHTC', index: 'gpu-facts' },
    });
  });

  it('keeps what is left when one of the two is cleared, and nothing of both', async () => {
    const { user, settings } = setup({ snapshotDir: '/data', publishTo: { pool: 'CHTC', index: 'gpu-facts' } });
    await user.clear(screen.getByLabelText(/^Pool name/));
    expect(settings().jsonData.publishTo).toEqual({ index: 'gpu-facts' });
    expect(screen.getByLabelText(/^Target index/)).toHaveValue('gpu-facts');
    await user.clear(screen.getByLabelText(/^Target index/));
    expect(settings().jsonData.publishTo).toBeUndefined();
    expect(screen.queryByLabelText(/^Target index/)).not.toBeInTheDocument();
  });

  it('asks for Elasticsearch, which the facts are published into', async () => {
    const { user } = setup({ snapshotDir: '/data', publishTo: { pool: 'CHTC', index: 'gpu-facts' } });
    expect(screen.getByLabelText('Data source connection URL')).toBeInTheDocument();
    await user.clear(screen.getByLabelText(/^Pool name/));
    await user.clear(screen.getByLabelText(/^Target index/));
    expect(screen.queryByLabelText('Data source connection URL')).not.toBeInTheDocument();
  });

  it('cannot be changed where it was provisioned', () => {
    setup({ snapshotDir: '/data', factsIndex: 'gpu-facts', publishTo: { pool: 'CHTC' } }, { readOnly: true });
    for (const field of [/^Facts index/, /^Pool name/, /^Target index/]) {
      expect(screen.getByLabelText(field)).toBeDisabled();
    }
  });

  it('is not of a data source of many pools', async () => {
    const publishTo = { pool: 'CHTC' };
    const { user, settings } = setup({ snapshotDir: '/data', factsIndex: 'gpu-facts', publishTo });
    await user.click(screen.getByRole('radio', { name: 'Many pools' }));
    expect(settings().jsonData).toEqual({ mode: 'fleet', factsIndex: 'gpu-facts' });
    expect(screen.queryByLabelText(/^Pool name/)).not.toBeInTheDocument();
  });
});

describe('the mode', () => {
  it('is of one pool unless another is chosen', () => {
    const { settings } = setup();
    expect(screen.getByRole('radio', { name: 'One pool' })).toBeChecked();
    expect(settings().jsonData).toEqual({});
  });

  it('shows of many pools only what matters to them, and takes the snapshots away', async () => {
    const { user, settings } = setup({ snapshotDir: '/data', userNames: 'full' });
    await user.click(screen.getByRole('radio', { name: 'Many pools' }));
    expect(settings().jsonData).toEqual({ mode: 'fleet', userNames: 'full' });
    const headings = screen.getAllByRole('heading').map((heading) => heading.textContent);
    expect(headings).toEqual(expect.arrayContaining(['Facts', 'Elasticsearch', 'Privacy']));
    for (const other of ['Snapshots', 'Cache', 'Jobs', 'Links']) {
      expect(headings).not.toContain(other);
    }
    await user.type(screen.getByLabelText(/^Facts index/), 'gpu-facts');
    await user.type(screen.getByLabelText('Data source connection URL'), 'https://es.example.org');
    await user.type(screen.getByLabelText(/^Time zone/), 'America/Chic');
    await user.click(await screen.findByRole('option', { name: 'America/Chicago' }));
    expect(settings().url).toBe('https://es.example.org');
    expect(settings().jsonData).toEqual({
      mode: 'fleet',
      userNames: 'full',
      factsIndex: 'gpu-facts',
      timezone: 'America/Chicago',
    });
  });

  it('restores the settings of a pool when the scope is switched back', async () => {
    const jsonData: GpuSettings = { snapshotDir: '/data', jobs: 'sqlite', jobsPath: 'ads.db', userNames: 'full' };
    const { user, settings } = setup(jsonData);
    await user.click(screen.getByRole('radio', { name: 'Many pools' }));
    expect(settings().jsonData).toEqual({ mode: 'fleet', userNames: 'full' });
    await user.click(screen.getByRole('radio', { name: 'One pool' }));
    expect(settings().jsonData).toEqual({ ...jsonData, mode: 'pool' });
  });

  it('asks for Elasticsearch of a pool where it publishes facts', async () => {
    const { user } = setup({ snapshotDir: '/data', factsIndex: 'x' });
    expect(screen.getByLabelText('Data source connection URL')).toBeInTheDocument();
    await user.clear(screen.getByLabelText(/^Facts index/));
    expect(screen.queryByLabelText('Data source connection URL')).not.toBeInTheDocument();
  });
});
