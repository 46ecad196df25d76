import { IncomingMessage, ServerResponse } from 'node:http';

/** Answers the part of Grafana's HTTP API that a data source's front end uses: resources, queries, health. */
export type Bridge = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** The bridge that the environment names, else one with canned answers. */
export function bridgeOf(address: string | undefined): Bridge {
  return address ? proxyTo(address) : fixtures;
}

/** Passes everything on to a server that has the plugin's backend behind it. */
function proxyTo(address: string): Bridge {
  return async (request, response) => {
    const answer = await fetch(new URL(request.url ?? '/', address), {
      method: request.method,
      headers: { 'Content-Type': 'application/json' },
      body: request.method === 'POST' ? await bodyOf(request) : undefined,
    });
    response.writeHead(answer.status, { 'Content-Type': answer.headers.get('Content-Type') ?? 'application/json' });
    response.end(Buffer.from(await answer.arrayBuffer()));
  };
}

const values: Record<string, string[]> = {
  category: ['Priority-ResearcherOwned', 'Priority-CHTCOwned', 'Shared', 'Backfill-OpenCapacity'],
  slots: ['Real', 'Backfill'],
  device: ['NVIDIA A100-SXM4-80GB', 'NVIDIA H200', 'NVIDIA H200 NVL', 'Quadro RTX 6000'],
  machine: ['gpu1.example.org', 'gpu2.example.org', 'gpu3.example.org'],
  ownership: ['Researcher Owned', 'CHTC Owned', 'Open Capacity'],
  project: ['proj-a', 'proj-b'],
  user: ['alice@example.org', 'bob@example.org'],
  memory: ['<48GB', '80GB', '>80GB'],
};

interface Query {
  refId: string;
  queryType?: string;
  view?: string;
}

/** Canned answers: as many kinds of frames as the page can show. */
const fixtures: Bridge = async (request, response) => {
  const url = new URL(request.url ?? '/', 'http://localhost');
  const resource = /\/resources\/values\/(\w+)$/.exec(url.pathname);
  if (resource) {
    const known = values[resource[1]];
    return known
      ? send(
          response,
          200,
          known.map((value) => ({ text: value, value }))
        )
      : send(response, 404, { message: `There is no dimension "${resource[1]}".` });
  }
  if (url.pathname.endsWith('/health')) {
    return send(response, 200, { status: 'OK', message: 'The newest snapshot is 4 minutes old.', details: {} });
  }
  if (url.pathname === '/api/ds/query') {
    const { queries, from, to }: { queries: Query[]; from: string; to: string } = JSON.parse(await bodyOf(request));
    const results = Object.fromEntries(
      queries.map((query) => [query.refId, { status: 200, frames: framesOf(query, Number(from), Number(to)) }])
    );
    return send(response, 200, { results });
  }
  send(response, 404, { message: `Nothing answers ${url.pathname}.` });
};

function framesOf({ refId, view = 'timeseries' }: Query, from: number, to: number): object[] {
  if (view === 'timeseries') {
    const times = [from, (from + to) / 2, to];
    return ['NVIDIA H200', 'NVIDIA A100-SXM4-80GB'].map((device, i) => ({
      schema: {
        refId,
        meta: { type: 'timeseries-multi', typeVersion: [0, 1] },
        fields: [
          { name: 'time', type: 'time', typeInfo: { frame: 'time.Time' } },
          { name: 'value', type: 'number', typeInfo: { frame: 'float64' }, labels: { device } },
        ],
      },
      data: { values: [times, [10 + i, 20 + i, 15 + i]] },
    }));
  }
  return [
    {
      schema: {
        refId,
        meta: { type: 'table', typeVersion: [0, 1] },
        fields: [
          { name: 'device', type: 'string', typeInfo: { frame: 'string' } },
          { name: 'gpuHours', type: 'number', typeInfo: { frame: 'float64' } },
        ],
      },
      data: {
        values: [
          ['NVIDIA H200', 'All'],
          [12.5, 12.5],
        ],
      },
    },
  ];
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
