import { expect, test } from './editors';

// The backend shows pseudonyms to whoever is neither an editor nor an administrator.
const hours = { queryType: 'userHours', view: 'timeseries', groupBy: ['user'] };
const pseudonym = /^User \d+$/;

test.describe('a viewer', () => {
  test.use({ extraHTTPHeaders: { 'X-Test-Role': 'Viewer' } });

  test('sees pseudonyms in answers', async ({ editor }) => {
    const answer = editor.page.waitForResponse((response) => response.url().includes('/api/ds/query'));
    await editor.open({ query: hours });
    await editor.choose('Bucket', '1d');
    await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
    await expect(editor.answer().getByText(pseudonym).first()).toBeVisible();
    expect(await (await answer).text()).not.toContain('@');
  });

  test('chooses users by their pseudonyms', async ({ editor }) => {
    await editor.open({ query: hours });
    await editor.field('Users').click();
    const options = editor.page.getByRole('option', { name: pseudonym });
    await expect(options.first()).toBeVisible();
    await expect(editor.page.getByRole('option', { name: '@' })).toHaveCount(0);
    const name = (await options.first().textContent()) ?? '';
    await options.first().click();
    await editor.expectSaved({ filter: { users: [name] } });
    await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
    await expect(editor.answer().getByText(name).first()).toBeVisible();
  });

  test('is offered pseudonyms as values of variables', async ({ editor }) => {
    await editor.open({ editor: 'variable' });
    const values = await editor.values('user');
    expect(values.length).toBeGreaterThan(0);
    // who held a GPU without a name has none to hide
    expect(values.filter((value) => value !== 'Unknown' && !pseudonym.test(value))).toEqual([]);
  });
});

test('an administrator sees names', async ({ editor }) => {
  await editor.open({ editor: 'variable' });
  expect((await editor.values('user')).some((value) => value.includes('@'))).toBe(true);
});
