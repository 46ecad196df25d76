// Takes the pictures of the dashboards for the README and the catalogue, in a Grafana that has the plugin, a data source and
// the dashboards (provisioning/), with a month of data:
//
//   GRAFANA_URL=http://localhost:3000 node tests/screenshots/dashboards.mjs [name…]
//
// Names are those of the pictures to take; without, it takes all.
// GRAFANA_USER and GRAFANA_PASSWORD are needed where viewers must log in, CHROMIUM where the browser is not Debian's.
import { chromium } from '@playwright/test';
import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const pictures = [
  { name: 'pool-overview', path: '/d/gpureports-pool?from=now-7d&to=now' },
  { name: 'get-a-gpu', path: '/d/gpureports-get?from=now-14d&to=now' },
  { name: 'users', path: '/d/gpureports-users?from=now-7d&to=now' },
  { name: 'owners', path: '/d/gpureports-owners?from=now-35d&to=now&var-project=CS_Five' },
  { name: 'supply', path: '/d/gpureports-backfill?from=now-30d&to=now' },
  { name: 'evictions', path: '/d/gpureports-backfill-evictions?from=now-30d&to=now' },
  { name: 'demand', path: '/d/gpureports-demand?from=now-7d&to=now' },
  { name: 'utilization', path: '/d/gpureports-utilization?from=now-3d&to=now' },
  { name: 'machine', path: '/d/gpureports-machine?from=now-3d&to=now' },
  { name: 'fleet', path: '/d/gpureports-fleet?from=now-7d&to=now' }, // of a data source of many pools
];
const largest = 150_000; // bytes
const { GRAFANA_URL, GRAFANA_USER, GRAFANA_PASSWORD, CHROMIUM = '/usr/bin/chromium' } = process.env;
if (!GRAFANA_URL) {
  throw new Error('GRAFANA_URL is not set: name the Grafana to take pictures of');
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
const login = GRAFANA_USER && {
  extraHTTPHeaders: { Authorization: 'Basic ' + Buffer.from(`${GRAFANA_USER}:${GRAFANA_PASSWORD}`).toString('base64') },
};
const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, ...login });
const wanted = process.argv.slice(2);
for (const { name, path } of pictures.filter(({ name }) => wanted.length === 0 || wanted.includes(name))) {
  await page.goto(`${GRAFANA_URL}${path}&kiosk&theme=light`);
  await answered();
  const file = fileURLToPath(new URL(`../../src/img/${name}.png`, import.meta.url));
  await page.screenshot({ path: file });
  const { size } = statSync(file);
  console.log(`${name}.png: ${size} bytes`);
  if (size > largest) {
    throw new Error(`${name}.png is larger than ${largest} bytes`);
  }
}
await browser.close();

/** Waits until every panel in view has its answer. */
async function answered() {
  await page.waitForLoadState('networkidle', { timeout: 120_000 });
  await page.getByTestId('data-testid panel content').first().waitFor();
  await page.getByLabel('Panel loading bar').first().waitFor({ state: 'detached' });
  await page.waitForTimeout(500); // charts fade in
}
