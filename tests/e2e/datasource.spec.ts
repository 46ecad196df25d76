import { datasource, expect, test } from './plugin';

test('the provisioned data source is well', async ({ readProvisionedDataSource, gotoDataSourceConfigPage }) => {
  const { uid } = await readProvisionedDataSource(datasource);
  const page = await gotoDataSourceConfigPage(uid);
  await expect(page.saveAndTest()).toBeOK();
});

test('a directory that does not exist is named', async ({ createDataSourceConfigPage, page }) => {
  const configPage = await createDataSourceConfigPage({ type: 'chtc-gpureports-datasource' });
  await page.getByLabel(/^Directory.*gpu_state/).fill('/does/not/exist');
  await expect(configPage.saveAndTest()).not.toBeOK();
  await expect(configPage).toHaveAlert('error', { hasText: '/does/not/exist' });
});
