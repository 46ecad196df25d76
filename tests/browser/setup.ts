import { Server } from 'node:http';

import { startBackend } from './backend';
import { build, packagesOf } from './build';
import { Generation, pageVariable, Subject } from './pages';
import { serve } from './server';

const pages: Array<[Subject, Generation]> = [
  ['browser', 'current'],
  ['browser', 'lowest'],
  ['next', 'current'],
  ['next', 'next'],
];

/**
 * Builds the pages on generations of Grafana's packages and serves them while the tests run, with the plugin's binary
 * behind them; the tests find their addresses in the environment.
 * GPUREPORTS_BRIDGE_URL names a backend that runs already (`gpudev bridge`).
 */
export default async function setup() {
  const running = process.env.GPUREPORTS_BRIDGE_URL;
  const backend = running ? { url: running, stop: async () => {} } : await startBackend();
  const servers: Server[] = [];
  for (const [subject, generation] of pages) {
    const { url, server } = await serve(await build(subject, generation), packagesOf(generation), backend.url);
    process.env[pageVariable(subject, generation)] = url;
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
