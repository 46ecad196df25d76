import path from 'node:path';
import webpack, { Configuration } from 'webpack';

const root = path.resolve(__dirname, '../..');

/**
 * Which of Grafana's packages the page has: those of package.json, the oldest that the plugin supports, or the newest, with
 * a page of its own.
 */
export type Generation = 'current' | 'lowest' | 'next';

/** Where a generation's packages are. React is there once for current and lowest, with the current ones. */
export function packagesOf(generation: Generation): string {
  return path.join(root, generation === 'current' ? 'node_modules' : `tests/${generation}/node_modules`);
}

/** Bundles the page with the editors and the real @grafana packages; says where it is. */
export async function build(generation: Generation): Promise<string> {
  const output = path.join(root, 'node_modules/.cache/browser-page', generation);
  const config: Configuration = {
    mode: 'development',
    devtool: false,
    context: root,
    entry: generation === 'next' ? './tests/next/page/index.tsx' : './tests/browser/page/index.tsx',
    output: { path: output, filename: 'page.js', publicPath: '/' },
    cache: { type: 'filesystem', name: `browser-page-${generation}` },
    resolve: {
      alias: generation === 'lowest' ? ofGrafana(packagesOf(generation)) : {}, // the newest page has its own beside it
      extensions: ['.ts', '.tsx', '.mjs', '.js'],
      modules: [path.join(root, 'src'), 'node_modules'],
    },
    module: {
      rules: [
        {
          test: /\.tsx?$/,
          exclude: /node_modules/,
          loader: 'swc-loader',
          options: { jsc: { target: 'es2021', parser: { syntax: 'typescript', tsx: true } } },
        },
        { test: /\.css$/, use: ['style-loader', 'css-loader'] },
        { test: /\.(svg|png)$/, type: 'asset/inline' },
        // Grafana's packages import CommonJS from .mjs and expect its default export.
        { test: /\.mjs$/, type: 'javascript/auto', resolve: { fullySpecified: false } },
      ],
    },
    performance: { hints: false },
  };
  await new Promise<void>((resolve, reject) =>
    webpack(config, (error, stats) => {
      if (error || stats?.hasErrors()) {
        reject(error ?? new Error(stats?.toString({ all: false, errors: true })));
      } else {
        resolve();
      }
    })
  );
  return output;
}

/** Where Grafana's packages come from, whoever imports them. */
function ofGrafana(packages: string): Record<string, string> {
  const names = ['data', 'i18n', 'runtime', 'schema', 'ui'].map((name) => `@grafana/${name}`);
  return Object.fromEntries(names.map((name) => [name, path.join(packages, name)]));
}
