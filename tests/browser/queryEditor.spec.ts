import { kindNames, kinds } from '../../src/query/kinds';
import { answerable, presets } from '../../src/query/presets';
import { expect, test } from './editors';

const allocation = { queryType: 'allocation', view: 'timeseries', groupBy: ['category'] };

for (const kind of kindNames) {
  for (const view of Object.keys(kinds[kind].views)) {
    test(`shows ${kind}/${view}`, async ({ editor }) => {
      await editor.open({ query: { queryType: kind, view } });
      await expect(editor.page.getByRole('status', { name: 'What the query answers' })).toHaveText(/\.$/);
      await expect(editor.page.getByRole('alert')).toHaveCount(0);
      await editor.page.getByRole('button', { name: 'Options' }).click();
      await editor.expectNamed();
      expect(editor.requests).toEqual([]);
    });
  }
}

/** What can have no answer in a pool that is well, on the day of the test, or where nobody records who waits. */
const mayBeEmpty = [
  'Idle machines',
  'Evictions one by one',
  'GPUs held idle now',
  ...presets.filter(({ query }) => query.queryType === 'demand').map(({ name }) => name),
];

/** A menu item's name begins with the preset's and goes on with its description. */
const startingWith = (text: string) => new RegExp(`^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`);

test.describe('presets', () => {
  test.skip(({ generation }) => generation === 'lowest', 'Answers do not depend on the packages of Grafana.');
  for (const { name, query } of answerable(presets, 'pool')) {
    test(`"${name}" is answered`, async ({ editor }) => {
      await editor.open({});
      await editor.page.getByRole('button', { name: 'Presets' }).click();
      await editor.page.getByRole('menuitem', { name: startingWith(name) }).click();
      await editor.expectSaved(query);
      await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
      await expect(editor.answer().getByRole('alert')).toHaveCount(0);
      if (!mayBeEmpty.includes(name)) {
        await expect(
          editor
            .answer()
            .getByText(/^(Time series|Table)$/)
            .first()
        ).toBeVisible();
      }
      expect(editor.count('/api/ds/query')).toBe(1);
    });
  }
});

test('shows what the backend refuses', async ({ editor }) => {
  await editor.open({ query: { ...allocation, bucket: '5m' } }); // the editor offers multiples of a slice only
  await editor.choose('Group by', /^Device/);
  await expect(editor.answer().getByRole('alert')).toContainText('5m');
});

test('changes kind, view, grouping, metrics and bucket by mouse', async ({ editor }) => {
  await editor.open({});
  await editor.choose('Query type', /^Evictions/);
  await editor.choose('View', /^Time series/);
  await editor.choose('Group by', /^Device/, /^User/);
  await editor.choose('Metrics', /^Evictions per 100/);
  await editor.choose('Bucket', '1d');
  await editor.expectSaved({
    queryType: 'evictions',
    view: 'timeseries',
    groupBy: ['device', 'user'],
    metrics: ['ratePer100GpuHours'],
    bucket: '1d',
  });
});

for (const app of ['explore', 'panel-editor', 'unified-alerting']) {
  test(`a choice by mouse counts one query, ${app}`, async ({ editor }) => {
    await editor.open({ app, query: allocation });
    let queries = 0;
    const choose = async (label: string, option: string | RegExp, fields: Record<string, unknown>) => {
      await editor.choose(label, option);
      await editor.expectSaved(fields);
      await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
      expect(editor.count('/api/ds/query')).toBe(++queries);
    };
    await choose('Bucket', '1d', { bucket: '1d' });
    await choose('Group by', /^Device/, { groupBy: ['category', 'device'] });
    await choose('Metrics', /^Free/, { metrics: ['free'] });
    await choose('View', /^Summary/, { view: 'summary' });
    await choose('Query type', /^Evictions/, { queryType: 'evictions' });
  });
}

test('takes away in an alert rule what is cleared there', async ({ editor }) => {
  const query = { ...allocation, metrics: ['free'], bucket: '1h', filter: { machines: ['gpu1'] } };
  await editor.open({ app: 'unified-alerting', query });
  await editor.field('Machines').focus();
  await editor.page.keyboard.press('Backspace');
  await expect.poll(async () => (await editor.saved()).filter).toBeUndefined();
  await editor.choose('Query type', /^User hours/);
  await expect.poll(() => editor.saved()).toEqual({ refId: 'A', queryType: 'userHours', view: 'summary', version: 1 });
});

test('a broken pattern does not keep the other menus from their values', async ({ editor }) => {
  await editor.open({ query: { ...allocation, filter: { projects: ['/[/'] } }, variables: { chosen: 'gpu1' } });
  const [device] = await editor.values('device');
  await editor.field('Devices').click();
  await expect(editor.page.getByText(device, { exact: true })).toBeVisible();
  await expect(editor.page.getByText('$chosen', { exact: true })).toBeVisible();
});

test('offers GPUs without a project', async ({ editor }) => {
  await editor.open({ query: allocation });
  await editor.field('Projects').click();
  await editor.page.getByText('No project', { exact: true }).click();
  await editor.expectSaved({ filter: { projects: ['/^$/'] } });
  await expect(editor.answer().getByText('Time series')).toBeVisible();
});

test('excludes a value that is typed with a ! into a menu', async ({ editor }) => {
  await editor.open({ query: { ...allocation, groupBy: ['device'] } });
  const [device, ...others] = await editor.values('device');
  await editor.field('Devices').click();
  await expect(editor.page.getByText(device, { exact: true })).toBeVisible();
  await editor.page.keyboard.type(`!${device}`);
  await editor.page.getByText(`!${device}`, { exact: true }).last().click();
  await editor.expectSaved({ filter: { devices: [`!${device}`] } });
  await expect(editor.page.getByRole('status', { name: 'What the query answers' })).toContainText(
    `Only devices not ${device}.`
  );
  await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
  await expect(
    editor
      .answer()
      .getByText(new RegExp(`^${others[0]} · `))
      .first()
  ).toBeVisible();
  await expect(editor.answer().getByText(new RegExp(`^${device} · `))).toHaveCount(0);
});

test('narrows by ad-hoc filters of the dashboard', async ({ editor }) => {
  const [one, other] = await editor.values('machine');
  await editor.open({
    query: { ...allocation, filter: { machines: ['/./'] } },
    adHoc: [
      { key: 'machines', operator: '!=', value: one },
      { key: 'devices', operator: '=~', value: 'H200|A100' },
    ],
  });
  const request = editor.page.waitForRequest((made) => made.url().includes('/api/ds/query'));
  await editor.choose('Group by', /^Machine/);
  expect((await request).postDataJSON().queries[0].filter).toEqual({
    machines: ['/./', `!${one}`],
    devices: ['/H200|A100/'],
  });
  await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
  await expect(editor.answer().getByRole('alert')).toHaveCount(0);
  await expect(editor.answer().getByText(new RegExp(one)).first()).toBeHidden();
  expect(other).toBeDefined();
  await editor.expectSaved({ filter: { machines: ['/./'] } });
});

test('names series by the legend', async ({ editor }) => {
  await editor.open({ query: allocation });
  await editor.page.getByRole('button', { name: 'Options' }).click();
  await editor.field('Legend').fill('{{metric}} in {{category}}');
  await editor.page.keyboard.press('Enter');
  await editor.expectSaved({ legend: '{{metric}} in {{category}}' });
  await expect(
    editor
      .answer()
      .getByText(/^Allocated % in /)
      .first()
  ).toBeVisible();
  await editor.field('Legend').fill('{{devise}}');
  await editor.page.keyboard.press('Enter');
  await expect(editor.answer().getByRole('alert')).toContainText('{{category}}, {{metric}}');
});

test('works with the keyboard alone', async ({ editor }) => {
  const { keyboard } = editor.page;
  await editor.open({ query: allocation });
  await keyboard.press('Tab');
  await expect(editor.field('Query type')).toBeFocused();
  await keyboard.press('ArrowDown');
  await keyboard.press('ArrowDown');
  await keyboard.press('Enter');
  await editor.expectSaved({ queryType: 'userHours' });
  await editor.expectNoMenu();
  await editor.field('Devices').focus();
  await keyboard.type('/H200/');
  await keyboard.press('Enter');
  await editor.expectSaved({ filter: { devices: ['/H200/'] } });
  await keyboard.press('Backspace');
  await expect.poll(async () => (await editor.saved()).filter).toBeUndefined();
  await editor.page.getByRole('button', { name: 'Options' }).focus();
  await keyboard.press('Enter');
  await expect(editor.field('Limit')).toBeVisible();
});

test.describe('filters', () => {
  test("offer the pool's values, asked for once when opened", async ({ editor }) => {
    await editor.open({ query: allocation });
    const [device] = await editor.values('device');
    await editor.field('Devices').click();
    await editor.page.getByText(device, { exact: true }).click();
    await editor.expectSaved({ filter: { devices: [device] } });
    expect(editor.count('/values/device')).toBe(1);
    expect(editor.count('/api/ds/query')).toBe(1);
  });

  test('ask nothing on any key, and run once on Enter', async ({ editor }) => {
    await editor.open({ query: allocation });
    await editor.field('Machines').click();
    await expect.poll(() => editor.requests.length).toBe(1);
    await editor.page.keyboard.type('/^gpu[12]\\./', { delay: 30 });
    expect(editor.requests).toHaveLength(1);
    await editor.page.keyboard.press('Enter');
    await editor.expectSaved({ filter: { machines: ['/^gpu[12]\\./'] } });
    await expect.poll(() => editor.count('/api/ds/query')).toBe(1);
  });

  test('take over what was typed when the field is left', async ({ editor }) => {
    await editor.open({ query: allocation });
    await editor.field('Projects').click();
    await editor.page.keyboard.type('my-project');
    await editor.page.mouse.click(5, 5);
    await editor.expectSaved({ filter: { projects: ['my-project'] } });
  });

  test('offer variables and send their values', async ({ editor }) => {
    await editor.open({ query: allocation, variables: { chosen: 'gpu1.example.org' } });
    await editor.field('Machines').click();
    const request = editor.page.waitForRequest((made) => made.url().includes('/api/ds/query'));
    await editor.page.getByText('$chosen', { exact: true }).click();
    await editor.expectSaved({ filter: { machines: ['$chosen'] } });
    expect((await request).postDataJSON().queries[0].filter).toEqual({ machines: ['gpu1.example.org'] });
  });
});

test('a limit counts on Enter, not on every key', async ({ editor }) => {
  await editor.open({ query: allocation });
  await editor.page.getByRole('button', { name: 'Options' }).click();
  await editor.field('Limit').click();
  await editor.page.keyboard.type('250', { delay: 30 });
  expect(editor.requests).toEqual([]);
  await editor.page.keyboard.press('Enter');
  await editor.expectSaved({ limit: 250 });
  expect(editor.count('/api/ds/query')).toBe(1);
});

test('warns in alert rules', async ({ editor }) => {
  await editor.open({
    app: 'unified-alerting',
    query: { queryType: 'allocation', view: 'current', filter: { machines: ['$m'] } },
  });
  await expect(editor.page.getByRole('alert')).toContainText("can't be used in alert rules");
  await expect(editor.page.getByRole('alert')).toContainText('Replace $m');
});

test('offers evictions and gaps as annotations', async ({ editor }) => {
  await editor.open({ editor: 'annotation' });
  await editor.page.getByRole('button', { name: 'Presets' }).click();
  await editor.page.getByRole('menuitem', { name: 'Collector gaps' }).click();
  await editor.expectSaved({ queryType: 'allocation', view: 'annotations' });
});

for (const theme of ['light', 'dark'] as const) {
  test(`is accessible, ${theme}`, async ({ editor }) => {
    await editor.open({ theme, query: { ...allocation, metrics: ['allocated'] } });
    await editor.page.getByRole('button', { name: 'Options' }).click();
    await editor.expectAccessible();
  });
}
