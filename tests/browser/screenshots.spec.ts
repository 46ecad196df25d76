import path from 'node:path';

import { test } from './editors';

// `npm run screenshots` takes the pictures of the plugin's page in the catalogue.
test.skip(!process.env.SCREENSHOTS, 'only on demand');
test.use({ viewport: { width: 1280, height: 640 } });

const picture = (name: string) => ({ path: path.resolve(__dirname, '../../src/img', name), fullPage: true });
const hideSaved = '[aria-label="Saved"] { display: none }';

test('query editor', async ({ editor }) => {
  await editor.open({
    query: { queryType: 'allocation', view: 'timeseries', groupBy: ['category'], metrics: ['allocatedPercent'] },
  });
  await editor.page.addStyleTag({ content: hideSaved });
  await editor.choose('Bucket', '1h');
  await editor.answer().getByText('Time series').waitFor();
  await editor.page.screenshot(picture('query-editor.png'));
});

test('config editor', async ({ editor }) => {
  const jsonData = {
    snapshotDir: '/srv/gpu-snapshots',
    timezone: 'America/Chicago',
    cacheDir: '/var/lib/grafana/gpureports',
    jobs: 'sqlite',
  };
  await editor.open({ editor: 'config', settings: { jsonData } });
  await editor.page.addStyleTag({ content: hideSaved });
  await editor.page.screenshot(picture('config-editor.png'));
});
