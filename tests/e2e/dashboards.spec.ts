import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { datasource, expect, test } from './plugin';

const folder = join(__dirname, '../../src/dashboards');

/** What Grafana writes where a panel failed to draw. */
const failure = /An unexpected error happened|Cannot read properties|is not a function|Panel plugin not found/;

const ranges = [
  { what: 'as it is', of: () => undefined },
  { what: 'without data', of: () => ({ from: '1000', to: '3601000' }) },
  { what: 'of one snapshot', of: (newest: number) => ({ from: String(newest - 1000), to: String(newest + 1000) }) },
];

/** The dashboards of a pool. */
const dashboards: Array<{ uid: string; title: string; tags: string[] }> = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')))
  .filter(({ tags }) => tags.includes('gpureports'));

for (const { uid, title } of dashboards) {
  for (const { what, of } of ranges) {
    test(`the dashboard "${title}", ${what}, has no panel with an error`, async ({
      gotoDashboardPage,
      readProvisionedDataSource,
      page,
    }) => {
      const source = await readProvisionedDataSource(datasource);
      const range = await page.request.get(`/api/datasources/uid/${source.uid}/resources/range`);
      const { newest } = await range.json();
      const queryParams = new URLSearchParams({ 'var-datasource': source.uid });
      const dashboard = await gotoDashboardPage({ uid, timeRange: of(newest), queryParams });
      await dashboard.waitForPanelsQueriesToComplete({ scrollAll: true });
      await expect(page.getByTestId('data-testid Panel status error')).toHaveCount(0);
      await expect(page.getByText(failure)).toHaveCount(0);
    });
  }
}
