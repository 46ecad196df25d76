import { Server } from 'node:http';

import { startBackend } from './backend';
import { build, Generation, packagesOf } from './build';
import { serve } from './server';

const generations: Generation[] = ['current', 'lowest', 'next'];

/**
 * Builds the page on each generation of Grafana's packages and serves it while the tests run, with the plugin's binary
 * behind it; they find it at PAGE_URL_CURRENT, PAGE_URL_LOWEST and PAGE_URL_NEXT.
 * GPUREPORTS_BRIDGE_URL names a backend that runs already (`gpudev bridge`).
 */
export default async function setup() {
  const running = process.env.GPUREPORTS_BRIDGE_URL;
  const backend = running ? { url: running, stop: async () => {} } : await startBackend();
  const servers: Server[] = [];
  for (const generation of generations) {
    const { url, server } = await serve(await build(generation), packagesOf(generation), backend.url);
    process.env[`PAGE_URL_${generation.toUpperCase()}`] = url;
    servers.push(server);
  }
  return async () => {
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
    }
    await backend.stop();
  };
}
