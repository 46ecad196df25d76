import { choose, datasource, expect, queriesDuring, refreshed, test } from './plugin';

test('a panel draws series of each category', async ({ panelEditPage, readProvisionedDataSource, page }) => {
  const { name } = await readProvisionedDataSource(datasource);
  await panelEditPage.datasource.set(name);
  await panelEditPage.setVisualization('Table');
  await expect(refreshed(page)).toBeOK();
  await expect(panelEditPage.panel.fieldNames.first()).toContainText(/time/i);
});

test('a table has its columns', async ({ panelEditPage, readProvisionedDataSource, page }) => {
  const { name } = await readProvisionedDataSource(datasource);
  await panelEditPage.datasource.set(name);
  await panelEditPage.setVisualization('Table');
  const row = panelEditPage.getQueryEditorRow('A');
  await choose(row, page, 'Query type', /^User hours/);
  await expect(refreshed(page)).toBeOK();
  await expect(panelEditPage.panel.fieldNames).toContainText([/category/i, /user/i]);
});

test('Explore answers', async ({ explorePage, readProvisionedDataSource, page }) => {
  const { name } = await readProvisionedDataSource(datasource);
  await explorePage.datasource.set(name);
  await expect(refreshed(page)).toBeOK();
});

test('a choice by mouse in Explore counts one query', async ({ explorePage, readProvisionedDataSource, page }) => {
  const { name } = await readProvisionedDataSource(datasource);
  await explorePage.datasource.set(name);
  await expect(refreshed(page)).toBeOK();
  const row = explorePage.getQueryEditorRow('A');
  for (const [label, option] of [
    ['Bucket', '3h'],
    ['View', /^Summary/],
    ['Query type', /^User hours/],
  ] as const) {
    const queries = await queriesDuring(page, () => choose(row, page, label, option));
    expect({ label, queries }).toEqual({ label, queries: 1 });
  }
  await expect(page.getByText('An unexpected error happened')).toHaveCount(0);
});

test('a new annotation answers as it stands', async ({ annotationEditPage, readProvisionedDataSource }) => {
  const { name } = await readProvisionedDataSource(datasource);
  await annotationEditPage.datasource.set(name);
  await expect(annotationEditPage.runQuery()).toBeOK();
});

test('a variable has the devices of the pool', async ({ variableEditPage, readProvisionedDataSource, page }) => {
  const { name } = await readProvisionedDataSource(datasource);
  await variableEditPage.setVariableType('Query');
  await variableEditPage.datasource.set(name);
  await choose(page.locator('form'), page, 'Values of', /^Devices/);
  await variableEditPage.runQuery();
  await expect(variableEditPage).toDisplayPreviews([/NVIDIA|Quadro|Tesla|GeForce/]);
});

test('a new alert rule evaluates as it stands', async ({ alertRuleEditPage, readProvisionedDataSource }) => {
  const { name } = await readProvisionedDataSource(datasource);
  const row = await alertRuleEditPage.getQueryRow('A');
  await row.datasource.set(name);
  await expect(alertRuleEditPage.evaluate()).toBeOK();
});

test('what is cleared in an alert rule is gone from it', async ({
  alertRuleEditPage,
  readProvisionedDataSource,
  page,
}) => {
  const { name } = await readProvisionedDataSource(datasource);
  const row = await alertRuleEditPage.getQueryRow('A');
  await row.datasource.set(name);
  const editor = page.getByTestId('query-editor-row').first();
  const devices = editor.getByLabel('Devices', { exact: true });
  await devices.click();
  await devices.fill('/no such device/');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await expect(editor.getByRole('status')).toContainText('Only devices /no such device/.');
  await devices.focus();
  await page.keyboard.press('Backspace');
  await expect(editor.getByRole('status')).not.toContainText('Only devices');
  const asked = page.waitForRequest((request) => request.url().includes('/eval'));
  await expect(alertRuleEditPage.evaluate()).toBeOK();
  expect((await asked).postData()).not.toContain('no such device');
});
