import { datasource, expect, test } from './plugin';

test('the provisioned data source is well', async ({ readProvisionedDataSource, gotoDataSourceConfigPage, page }) => {
  const { uid } = await readProvisionedDataSource(datasource);
  const configPage = await gotoDataSourceConfigPage(uid);
  await expect(async () => {
    // What is provisioned cannot be saved. A click while the page still loads does nothing.
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await expect(configPage).toHaveAlert('success', { hasText: /snapshot/i, timeout: 5_000 });
  }).toPass();
});

test('a directory that does not exist is named', async ({ createDataSourceConfigPage, page }) => {
  const configPage = await createDataSourceConfigPage({ type: 'chtc-gpureports-datasource' });
  await page.getByLabel(/^Directory.*gpu_state/).fill('/does/not/exist');
  await expect(configPage.saveAndTest()).not.toBeOK();
  await expect(configPage).toHaveAlert('error', { hasText: '/does/not/exist' });
});
