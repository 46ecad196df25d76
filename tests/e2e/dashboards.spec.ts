import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from './plugin';

const folder = join(__dirname, '../../src/dashboards');

for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
  const { uid, title } = JSON.parse(readFileSync(join(folder, file), 'utf8'));

  test(`the dashboard "${title}" has no panel with an error`, async ({ gotoDashboardPage, page }) => {
    const dashboard = await gotoDashboardPage({ uid });
    await dashboard.waitForPanelsQueriesToComplete({ scrollAll: true });
    await expect(page.getByTestId('data-testid Panel status error')).toHaveCount(0);
  });
}
