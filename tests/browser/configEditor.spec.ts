import type { GpuSettings } from '../../src/settings';
import { expect, test } from './editors';

test('is filled in from top to bottom', async ({ editor }) => {
  const { page } = editor;
  await editor.open({ editor: 'config' });
  await editor.fill(/^Directory.*gpu_state/, '/srv/gpu-snapshots');
  await page.getByRole('radio', { name: 'Changed over time' }).check();
  await editor.fill('until', '2026-05-14 00:00:00');
  await page.getByLabel('Zone', { exact: true }).first().fill('America/Chic');
  await editor.pick('America/Chicago');
  await page.getByLabel(/^Slice/).click();
  await editor.pick('Every snapshot');
  await editor.fill(/^Excluded hosts/, 'out.yaml');
  await editor.fill(/^GPU tiers/, 'tiers.yaml');
  await editor.fill(/^Memory/, '256');
  await page.getByRole('radio', { name: 'Elasticsearch' }).check();
  await editor.fill('Data source connection URL', 'https://es.example.org:9200');
  await editor.fill(/^History index/, 'history-*');
  await editor.expectSaved({
    url: 'https://es.example.org:9200',
    jsonData: {
      snapshotDir: '/srv/gpu-snapshots',
      timezone: [{ until: '2026-05-14 00:00:00', zone: 'America/Chicago' }, { zone: 'UTC' }],
      sliceMinutes: 0,
      hostExclusionsFile: 'out.yaml',
      gpuTiersFile: 'tiers.yaml',
      cacheMaxMB: 256,
      jobs: 'elasticsearch',
      jobsIndex: 'history-*',
    },
  });
  expect(editor.requests).toEqual([]);
});

test('"Save & test" shows what the backend found', async ({ editor }) => {
  await editor.open({ editor: 'config' });
  await editor.page.getByRole('button', { name: 'Save & test' }).click();
  await expect(editor.page.locator('output')).toHaveText(/\w+.*\./);
});

const matters: GpuSettings[] = [
  { jobs: 'none' },
  { jobs: 'sqlite' },
  { jobs: 'elasticsearch' },
  { factsIndex: 'gpu-facts', publishTo: { pool: 'CHTC' } },
  { mode: 'fleet', factsIndex: 'gpu-facts' },
];

for (const jsonData of matters) {
  test(`is accessible with ${JSON.stringify(jsonData)}`, async ({ editor }) => {
    await editor.open({ editor: 'config', settings: { jsonData } });
    await editor.expectAccessible();
  });
}
