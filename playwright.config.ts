import type { PluginOptions } from '@grafana/plugin-e2e';
import { defineConfig, devices } from '@playwright/test';

import type { Generation } from './tests/browser/pages';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';

const debianChromium = '/usr/bin/chromium';
const chromium = {
  ...devices['Desktop Chrome'],
  launchOptions: {
    executablePath: process.env.CHROMIUM ?? (existsSync(debianChromium) ? debianChromium : undefined),
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  },
};
// The browser keeps the compiled page: compiling 10 to 18 MB is half of a test's time.
const page = { ...chromium, reuseContext: true };
const grafana = process.env.GRAFANA_URL;

/**
 * Three kinds of tests: `browser` mounts the editors on a page of the project's own and needs nothing else,
 * `browser-lowest` on the oldest packages of Grafana that the plugin supports; `next` opens the shipped dashboards with the
 * built plugin on a page of the newest packages, because no server of Grafana 13 can be had, and `next-current` on one
 * of the current packages;
 * `grafana` works in the Grafana that GRAFANA_URL names, and exists only then.
 */
export default defineConfig<PluginOptions & { generation: Generation }>({
  fullyParallel: true,
  forbidOnly: !!process.env.CI,
  retries: process.env.CI ? 1 : 0, // a busy machine can lose a click while the page renders; the report names such tests
  workers: 2,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: 'list',
  globalSetup: './tests/browser/setup.ts',
  projects: [
    { name: 'browser', testDir: './tests/browser', use: page },
    { name: 'browser-lowest', testDir: './tests/browser', use: { ...page, generation: 'lowest' } },
    { name: 'next', testDir: './tests/next', use: { ...page, generation: 'next' } },
    { name: 'next-current', testDir: './tests/next', use: page },
    ...(grafana
      ? [
          {
            name: 'auth',
            testDir: `${dirname(require.resolve('@grafana/plugin-e2e'))}/auth`,
            testMatch: [/.*\.js/],
            use: { ...chromium, baseURL: grafana },
          },
          {
            name: 'grafana',
            testDir: './tests/e2e',
            use: { ...chromium, baseURL: grafana, storageState: 'playwright/.auth/admin.json' },
            dependencies: ['auth'],
          },
        ]
      : []),
  ],
});
