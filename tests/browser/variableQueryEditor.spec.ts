import { expect, test } from './editors';

test('asks for a dimension under a filter', async ({ editor }) => {
  await editor.open({ editor: 'variable', variables: { device: 'NVIDIA H200' } });
  await editor.choose('Values of', /^Users/);
  await editor.field('Devices').click();
  await editor.page.getByText('$device', { exact: true }).click();
  await editor.expectSaved({ refId: 'GpuReportsVariable', dimension: 'user', filter: { devices: ['$device'] } });
  await expect(editor.field('Users')).toHaveCount(0);
});

test('is accessible', async ({ editor }) => {
  await editor.open({ editor: 'variable', query: { dimension: 'machine' } });
  await editor.expectAccessible();
  await editor.expectNamed();
});
