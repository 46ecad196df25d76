import { existsSync, readFileSync, readlinkSync } from 'fs';
import { join } from 'path';

const manifest = JSON.parse(readFileSync(join(__dirname, 'plugin.json'), 'utf8'));

it('the manifest is the one at the top of the repository', () => {
  expect(readlinkSync(join(__dirname, 'plugin.json'))).toBe('../plugin.json');
});

it('says what the plugin is and can do', () => {
  expect(manifest).toMatchObject({
    type: 'datasource',
    id: 'chtc-gpureports-datasource',
    name: 'GPU Reports',
    backend: true,
    executable: 'gpx_gpureports',
    metrics: true,
    alerting: true,
    annotations: true,
    queryOptions: { minInterval: true, maxDataPoints: true },
    info: { version: '%VERSION%', updated: '%TODAY%' },
    dependencies: { grafanaDependency: '>=12.3.0' },
  });
});

it('names only pictures that exist', () => {
  const { logos, screenshots } = manifest.info;
  for (const path of [logos.small, logos.large, ...screenshots.map((shot: { path: string }) => shot.path)]) {
    expect({ path, exists: existsSync(join(__dirname, path)) }).toEqual({ path, exists: true });
  }
});
