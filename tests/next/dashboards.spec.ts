import { expect, Page, test as base } from '@playwright/test';
import { readdirSync } from 'node:fs';
import path from 'node:path';

import { Generation, pageVariable } from '../browser/pages';

type Open = (dashboard: string, given?: Record<string, string>) => Promise<void>;

/** A test on a generation of Grafana's packages: `open` waits until each of a dashboard's panels has answered. */
const test = base.extend<{ generation: Generation; open: Open }>({
  generation: ['current', { option: true }],
  open: async ({ page, generation }, use) => {
    const address = process.env[pageVariable('next', generation)];
    await use(async (dashboard, given = {}) => {
      await page.goto(`${address}/?${new URLSearchParams({ dashboard, ...given })}`);
      await expect(page.locator('section').first()).toBeVisible();
      await expect(page.locator('section:not([data-state=Done]):not([data-state=Error])')).toHaveCount(0);
    });
  },
});

interface Field {
  frame?: string;
  name: string;
  unit?: string;
  color?: string;
  labels?: Record<string, string>;
}

interface Query {
  queryType: string;
  groupBy?: string[];
  filter?: Record<string, string[]>;
}

interface Notice {
  text: string;
}

const dashboards = readdirSync(path.resolve(__dirname, '../../src/dashboards')).map((file) => path.parse(file).name);

/** Panels that are empty where nothing of the kind is so now. */
const ofNow = /\b(now|since yesterday)$|^(Idle machines|Waiting jobs|Who to contact|A waiting job would fit)$/;
/** Panels that are empty for a machine without backfill slots. */
const ofBackfill = /^(Backfill|Backfill runs|Free periods)$/;

/** The queries that the page sends to the backend. */
function sentBy(page: Page): Query[] {
  const sent: Query[] = [];
  page.on('request', (request) => {
    if (request.url().includes('/api/ds/query')) {
      sent.push(...request.postDataJSON().queries);
    }
  });
  return sent;
}

async function fieldsOf(page: Page, panel: string): Promise<Field[]> {
  return JSON.parse((await page.getByRole('region', { name: panel }).getByLabel('Fields').textContent()) ?? '');
}

for (const dashboard of dashboards) {
  test(`every panel of ${dashboard} answers`, async ({ page, open }) => {
    await open(dashboard);
    await expect(page.getByRole('alert')).toHaveCount(0);
    const answered = await page
      .locator('section')
      .evaluateAll((all) =>
        all.map((section) => [
          section.getAttribute('aria-label'),
          section.querySelector('[aria-label=Fields]')?.textContent !== '[]',
        ])
      );
    expect(answered.length).toBeGreaterThan(2);
    const empty = answered.filter(([, some]) => !some).map(([title]) => String(title));
    expect(empty.filter((title) => !ofNow.test(title) && !ofBackfill.test(title))).toEqual([]);
    // The pool is healthy, but too young for comparisons, and grows old on a slow machine: no other panel has a notice, of
    // which Grafana shows an icon.
    const ofAge = /not enough data for a comparison|^the newest snapshot is/;
    const notices = (await page.getByLabel('Notices').allTextContents()).flatMap((text): Notice[] => JSON.parse(text));
    expect(notices.filter(({ text }) => !ofAge.test(text))).toEqual([]);
  });
}

test('Group by replaces the groupings of the queries that have it', async ({ page, open, generation }) => {
  test.skip(generation !== 'next', 'Grafana groups from 13.1 on.');
  const sent = sentBy(page);
  await open('users', { groupBy: 'device' });
  await expect(page.getByRole('alert')).toHaveCount(0);
  expect(sent.filter(({ groupBy }) => groupBy?.join() === 'device').length).toBeGreaterThan(4);
  await expect(page.getByLabel('Chosen')).toContainText('"nonApplicable":false');
  const fields = await fieldsOf(page, 'GPU hours by user');
  expect(fields.filter(({ labels }) => labels?.device?.includes('NVIDIA')).length).toBeGreaterThan(2);
});

test('a grouping that does not apply leaves the queries as they are', async ({ page, open, generation }) => {
  test.skip(generation !== 'next', 'Grafana groups from 13.1 on.');
  const sent = sentBy(page);
  await open('users', { groupBy: 'obstacle' });
  await expect(page.getByRole('alert')).toHaveCount(0);
  expect(sent.filter(({ groupBy }) => groupBy?.includes('obstacle'))).toEqual([]);
  const reason = 'These figures cannot be grouped by Obstacle.';
  await expect(page.getByLabel('Chosen')).toContainText(`"nonApplicable":true,"nonApplicableReason":"${reason}"`);
});

test('ad hoc filters narrow the queries', async ({ page, open }) => {
  const sent = sentBy(page);
  await open('users', { filter: 'devices|=|NVIDIA H200' });
  await expect(page.getByRole('alert')).toHaveCount(0);
  expect(sent.filter(({ filter }) => filter?.devices?.join() === 'NVIDIA H200').length).toBeGreaterThan(4);
});

test('a comparison with the day before keeps names, units and colors', async ({ page, open }) => {
  await open('users', { compare: '24h', from: 'now-2d', to: 'now' });
  await expect(page.getByRole('alert')).toHaveCount(0);
  const fields = await fieldsOf(page, 'GPU hours by user');
  const shown = ({ name, unit, color }: Field) => [name, unit, color].join();
  const now = fields.filter(({ frame }) => frame === 'A').map(shown);
  const before = fields.filter(({ frame }) => frame === 'A-compare').map(shown);
  expect(now.length).toBeGreaterThan(3);
  expect(before.filter((field) => now.includes(field)).length).toBeGreaterThan(3);
});

test('dashboards are offered groupings and a link to the others', async ({ page, open, generation }) => {
  test.skip(generation !== 'next', 'Grafana asks for them from 13.0 and 13.1 on.');
  await open('users');
  const offered = JSON.parse((await page.getByLabel('Offered').textContent()) ?? '');
  expect(offered.links).toMatchObject([{ type: 'dashboards', tags: ['gpureports'] }]);
  expect(offered.keys).toContainEqual({ text: 'Device', value: 'device' });
  expect(offered.recommended).toEqual({ groupByKeys: ['device', 'project', 'user'] });
});
