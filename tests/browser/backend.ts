import { ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';

const root = path.resolve(__dirname, '../..');

/** A plugin's backend that answers Grafana's HTTP API at `url`. */
export interface Backend {
  url: string;
  stop: () => Promise<void>;
}

/** Makes a sample pool that ends now and starts the plugin's binary on it, as Grafana starts it. */
export async function startBackend(): Promise<Backend> {
  const directory = mkdtempSync(path.join(tmpdir(), 'gpureports-browser-'));
  const gpudev = path.join(directory, 'gpudev');
  const pool = path.join(directory, 'pool');
  execFileSync('go', ['build', '-o', gpudev, './pkg/internal/dev/cmd/gpudev'], { cwd: root, stdio: 'inherit' });
  execFileSync(gpudev, ['sample', pool], { cwd: root, stdio: 'inherit' });
  const settings = path.join(pool, 'settings.json');
  hideNames(settings);
  const bridge = spawn(gpudev, ['bridge', '--settings', settings], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return {
    url: await firstLine(bridge),
    stop: async () => {
      bridge.kill('SIGINT');
      await once(bridge, 'exit');
      rmSync(directory, { recursive: true });
    },
  };
}

/** Makes viewers see pseudonyms; the tests are administrators, unless they say otherwise. */
function hideNames(file: string): void {
  const settings = JSON.parse(readFileSync(file, 'utf8'));
  settings.jsonData.userNames = 'pseudonyms';
  settings.secureJsonData = { pseudonymSecret: 'made up for the browser tests' };
  writeFileSync(file, JSON.stringify(settings));
}

/** The first line that a process prints: the bridge's address. */
async function firstLine({ stdout }: ChildProcess): Promise<string> {
  if (stdout) {
    for await (const line of createInterface({ input: stdout })) {
      return line;
    }
  }
  throw new Error('The bridge to the plugin ended before it said its address.');
}
