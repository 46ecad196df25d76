import { Locator, Page, Request, Response } from '@playwright/test';
import { test as base } from '@grafana/plugin-e2e';

/** The provisioned data source, as provisioning/datasources describes it. */
export const datasource = { fileName: 'gpureports.yaml' };

/** Chooses in one of the editor's fields inside an editor row of Grafana. */
export async function choose(row: Locator, page: Page, label: string, option: string | RegExp): Promise<void> {
  await row.getByLabel(label, { exact: true }).click();
  await page.getByRole('option', { name: option }).first().click();
  await page.keyboard.press('Escape');
}

/**
 * The answer to the query that the refresh button runs. (The pages' own methods give the button a second, which a busy
 * machine may not keep.)
 */
export async function refreshed(page: Page): Promise<Response> {
  const answer = page.waitForResponse((response) => response.url().includes('/api/ds/query'));
  await page.getByTestId('data-testid RefreshPicker run button').click();
  return answer;
}

/** How many queries an action makes: those that are under way, and those that the browser still has to send. */
export async function queriesDuring(page: Page, action: () => Promise<void>): Promise<number> {
  let queries = 0;
  const count = (request: Request) => {
    if (request.url().includes('/api/ds/query')) {
      queries++;
    }
  };
  page.on('request', count);
  const answer = page.waitForResponse((response) => response.url().includes('/api/ds/query'));
  await action();
  await answer;
  await page.waitForLoadState('networkidle');
  page.off('request', count);
  return queries;
}

export const test = base;
export { expect } from '@grafana/plugin-e2e';
