import { readFile } from 'node:fs/promises';
import { createServer, Server } from 'node:http';
import { AddressInfo } from 'node:net';
import { join, normalize, resolve } from 'node:path';

import { passOn } from './bridge';

const html = `<!doctype html>
<html lang="en">
  <head><meta charset="utf-8" /><link rel="icon" href="data:," /><title>GPU Reports: editors</title></head>
  <body><div id="root"></div><script>window.grafanaBootData = { settings: { featureToggles: {} }, user: {}, navTree: [] };</script><script src="/page.js"></script></body>
</html>`;

const root = resolve(__dirname, '../..');

/** What the page of Grafana 13 loads: the built plugin and the shipped dashboards. */
const folders = [
  { prefix: '/public/plugins/chtc-gpureports-datasource/', folder: join(root, 'dist'), type: 'text/javascript' },
  { prefix: '/dashboards/', folder: join(root, 'src/dashboards'), type: 'application/json' },
];

/** Serves the page, Grafana's icons, and behind /api the plugin's backend, on a free port of this machine. */
export async function serve(page: string, packages: string, backend: string): Promise<{ url: string; server: Server }> {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url ?? '/', 'http://localhost').pathname);
    const served = folders.find(({ prefix }) => path.startsWith(prefix));
    try {
      if (served) {
        const content = await readFile(join(served.folder, path.slice(served.prefix.length)));
        response.setHeader('Content-Type', served.type).end(content);
      } else if (path.startsWith('/api/')) {
        await passOn(backend, request, response);
      } else if (path === '/') {
        response.setHeader('Content-Type', 'text/html').end(html);
      } else if (path.startsWith('/public/')) {
        const icon = path.replace(/^\/public\/(build\/)?/, '');
        response
          .setHeader('Content-Type', 'image/svg+xml')
          .end(await readFile(join(packages, '@grafana/ui/dist/public', icon)));
      } else {
        // The browser keeps the compiled code of cacheable scripts only.
        response
          .setHeader('Cache-Control', 'max-age=3600')
          .setHeader('Content-Type', 'text/javascript')
          .end(await readFile(join(page, path)));
      }
    } catch (error) {
      const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      response.writeHead(missing ? 404 : 500).end(String(error));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}
