import { expect, test } from './editors';

test('is filled in from top to bottom', async ({ editor }) => {
  const { page } = editor;
  await editor.open({ editor: 'config' });
  await page.getByLabel(/^Directory.*gpu_state/).fill('/srv/gpu-snapshots');
  await page.getByRole('radio', { name: 'It changed' }).check();
  await page.getByLabel('until').fill('2026-05-14 00:00:00');
  await page.getByLabel('Zone', { exact: true }).first().fill('America/Chic');
  await page.getByRole('option', { name: 'America/Chicago' }).click();
  await page.getByLabel(/^Slice/).click();
  await page.getByRole('option', { name: 'Every snapshot' }).click();
  await page.getByLabel(/^Excluded hosts/).fill('out.yaml');
  await page.getByLabel(/^Memory/).fill('256');
  await page.getByRole('radio', { name: 'Elasticsearch' }).check();
  await page.getByLabel('Data source connection URL').fill('https://es.example.org:9200');
  await page.getByLabel(/^History index/).fill('history-*');
  await editor.expectSaved({
    url: 'https://es.example.org:9200',
    jsonData: {
      snapshotDir: '/srv/gpu-snapshots',
      timezone: [{ until: '2026-05-14 00:00:00', zone: 'America/Chicago' }, { zone: 'UTC' }],
      sliceMinutes: 0,
      hostExclusionsFile: 'out.yaml',
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

for (const jobs of ['none', 'sqlite', 'elasticsearch']) {
  test(`is accessible with jobs: ${jobs}`, async ({ editor }) => {
    await editor.open({ editor: 'config', settings: { jsonData: { jobs } } });
    await editor.expectAccessible();
  });
}
