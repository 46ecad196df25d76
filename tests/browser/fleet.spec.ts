import { expect, test } from './editors';

const settings = { jsonData: { mode: 'fleet', factsIndex: 'gpu-facts' } };
const allocation = { queryType: 'allocation', view: 'timeseries' };
const pools = ['CHTC', 'OSPool', 'PATh'];

/** A query of one of these tests, as the data source sends it. */
interface Sent {
  refId: string;
  groupBy?: string[];
  filter?: { pools?: string[] };
}

// What a data source of many pools answers from is in Elasticsearch. Here the test answers the page: with a series of
// each pool that a query asks for.
test.beforeEach(async ({ page }) => {
  await page.route('**/resources/values/*', (route) => {
    const { pathname } = new URL(route.request().url());
    const values = pathname.endsWith('/pool') ? pools : ['NVIDIA H200'];
    return route.fulfill({ json: values.map((value) => ({ text: value, value })) });
  });
  await page.route('**/api/ds/query*', (route) => {
    const { from, queries } = route.request().postDataJSON() as { from: string; queries: Sent[] };
    const results = queries.map(({ refId, groupBy, filter }) => {
      const groups = groupBy?.includes('pool') ? (filter?.pools ?? pools) : ['All together'];
      return [refId, { status: 200, frames: groups.map((name) => series(refId, name, Number(from))) }];
    });
    return route.fulfill({ json: { results: Object.fromEntries(results) } });
  });
});

function series(refId: string, name: string, from: number) {
  return {
    schema: {
      refId,
      meta: { type: 'timeseries-multi', typeVersion: [0, 1] },
      fields: [
        { name: 'time', type: 'time' },
        { name: 'allocatedPercent', type: 'number', labels: { pool: name }, config: { displayName: name } },
      ],
    },
    data: {
      values: [
        [from, from + 3_600_000],
        [40, 60],
      ],
    },
  };
}

test('picks pools and groups by pool by mouse', async ({ editor }) => {
  const { page } = editor;
  const sent = async (choose: () => Promise<void>): Promise<Sent> => {
    const request = page.waitForRequest((made) => made.url().includes('/api/ds/query'));
    await choose();
    return (await request).postDataJSON().queries[0];
  };
  await editor.open({ settings, query: { ...allocation, groupBy: [] } });

  expect(await sent(() => editor.choose('Group by', /^Pool/))).toMatchObject({ groupBy: ['pool'] });
  await editor.expectSaved({ groupBy: ['pool'] });
  for (const pool of pools) {
    await expect(editor.answer().getByText(pool, { exact: true }).first()).toBeVisible();
  }

  await editor.field('Pools').click();
  const first = await sent(() => page.getByRole('option', { name: 'PATh' }).click());
  expect(first).toMatchObject({ filter: { pools: ['PATh'] } });
  const both = await sent(() => page.getByRole('option', { name: 'CHTC' }).click());
  expect(both).toMatchObject({ groupBy: ['pool'], filter: { pools: ['PATh', 'CHTC'] } });
  await page.keyboard.press('Escape');
  await editor.expectNoMenu();
  expect(editor.count('/values/pool')).toBe(1);
  await expect(editor.answer().getByText('CHTC', { exact: true }).first()).toBeVisible();
  await expect(editor.answer().getByText('OSPool', { exact: true })).toHaveCount(0);
  await expect(page.getByRole('status', { name: 'What the query answers' })).toContainText(
    'by pool. Only pools PATh or CHTC.'
  );
});

test('keeps the grouping and the filter by pool whatever else is chosen', async ({ editor }) => {
  const byPool = { groupBy: ['pool'], filter: { pools: ['CHTC'] } };
  await editor.open({ settings, query: { ...allocation, ...byPool } });
  await editor.choose('Metrics', /^Free/);
  await editor.expectSaved({ ...byPool, metrics: ['free'] });
  await editor.choose('Bucket', '1d');
  await editor.expectSaved({ ...byPool, bucket: '1d' });
  await editor.choose('View', /^Summary/);
  await editor.expectSaved({ ...byPool, view: 'summary' });
  await editor.choose('Query type', /^User hours/);
  await editor.expectSaved({ queryType: 'userHours', filter: byPool.filter });
  await expect(editor.page.getByRole('alert')).toHaveCount(0);
});

test('offers the devices of the chosen pools, and no machines', async ({ editor }) => {
  await editor.open({ settings, query: { ...allocation, filter: { pools: ['CHTC'] } } });
  await expect(editor.field('Machines')).toHaveCount(0);
  const request = editor.page.waitForRequest((made) => made.url().includes('/values/device'));
  await editor.field('Devices').click();
  await editor.page.getByRole('option', { name: 'NVIDIA H200' }).click();
  const asked = new URL((await request).url()).searchParams.get('filter');
  expect(JSON.parse(asked ?? '')).toEqual({ pools: ['CHTC'] });
  await editor.expectSaved({ filter: { pools: ['CHTC'], devices: ['NVIDIA H200'] } });
});

test('has presets by pool', async ({ editor }) => {
  await editor.open({ settings });
  await editor.page.getByRole('button', { name: 'Presets' }).click();
  await expect(editor.page.getByRole('menuitem', { name: 'Idle machines' })).toHaveCount(0);
  await editor.page.getByRole('menuitem', { name: 'Allocation by pool' }).click();
  await editor.expectSaved({ ...allocation, groupBy: ['pool'], metrics: ['allocatedPercent'] });
  await expect(editor.answer()).toHaveAttribute('data-state', 'Done');
});

test('is accessible in a data source of many pools', async ({ editor }) => {
  await editor.open({ settings, query: { ...allocation, groupBy: ['pool'], filter: { pools: ['CHTC'] } } });
  await editor.page.getByRole('button', { name: 'Options' }).click();
  await editor.expectAccessible();
});
