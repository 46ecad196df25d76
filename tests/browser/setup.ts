import { startBackend } from './backend';
import { build } from './build';
import { serve } from './server';

/**
 * Builds the page and serves it while the tests run, with the plugin's binary behind it; they find it at PAGE_URL.
 * GPUREPORTS_BRIDGE_URL names a backend that runs already (`gpureports bridge`).
 */
export default async function setup() {
  const running = process.env.GPUREPORTS_BRIDGE_URL;
  const backend = running ? { url: running, stop: async () => {} } : await startBackend();
  const { url, server } = await serve(await build(), backend.url);
  process.env.PAGE_URL = url;
  return async () => {
    server.close();
    server.closeAllConnections();
    await backend.stop();
  };
}
