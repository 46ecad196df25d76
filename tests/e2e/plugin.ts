import { Locator, Page } from '@playwright/test';
import { test as base } from '@grafana/plugin-e2e';

/** The provisioned data source, as provisioning/datasources describes it. */
export const datasource = { fileName: 'gpureports.yaml' };

/** Chooses in one of the editor's fields inside an editor row of Grafana. */
export async function choose(row: Locator, page: Page, label: string, option: string | RegExp): Promise<void> {
  await row.getByLabel(label, { exact: true }).click();
  await page.getByRole('option', { name: option }).first().click();
  await page.keyboard.press('Escape');
}

export const test = base;
export { expect } from '@grafana/plugin-e2e';
