import { Locator, Page, Response } from '@playwright/test';
import { test as base } from '@grafana/plugin-e2e';

/** The provisioned data source, as provisioning/datasources describes it. */
export const datasource = { fileName: 'gpureports.yaml' };

/** Chooses in one of the editor's fields inside an editor row of Grafana. */
export async function choose(row: Locator, page: Page, label: string, option: string | RegExp): Promise<void> {
  await row.getByLabel(label, { exact: true }).click();
  await page.getByRole('option', { name: option }).first().click();
  await page.keyboard.press('Escape');
}

/** The answer to the request that a step makes. */
export async function answerTo(page: Page, path: string, step: () => Promise<void>): Promise<Response> {
  const answer = page.waitForResponse((response) => response.url().includes(path));
  await step();
  return answer;
}

export const test = base;
export { expect } from '@grafana/plugin-e2e';
