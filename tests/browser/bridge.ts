import { IncomingMessage, ServerResponse } from 'node:http';

/** Passes a request of the page on to the plugin's backend: by default an administrator's. */
export async function passOn(backend: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const answer = await fetch(new URL(request.url ?? '/', backend), {
    method: request.method,
    headers: { 'Content-Type': 'application/json', 'X-Test-Role': String(request.headers['x-test-role'] ?? 'Admin') },
    body: request.method === 'POST' ? await bodyOf(request) : undefined,
  });
  response.writeHead(answer.status, { 'Content-Type': answer.headers.get('Content-Type') ?? 'application/json' });
  response.end(Buffer.from(await answer.arrayBuffer()));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
