import { bridgeOf } from './bridge';
import { build } from './build';
import { serve } from './server';

/** Builds the page and serves it while the tests run; they find it at PAGE_URL. */
export default async function setup() {
  const { url, server } = await serve(await build(), bridgeOf(process.env.GPUREPORTS_BRIDGE_URL));
  process.env.PAGE_URL = url;
  return () => {
    server.close();
    server.closeAllConnections();
  };
}
