import path from 'node:path';
import webpack, { Configuration } from 'webpack';

import { Generation, Subject } from './pages';

const root = path.resolve(__dirname, '../..');

/** Where a generation's packages are. React is there once for current and lowest, with the current ones. */
export function packagesOf(generation: Generation): string {
  return path.join(root, generation === 'current' ? 'node_modules' : `tests/${generation}/node_modules`);
}

/** Bundles a page with the real @grafana packages; says where it is. */
export async function build(subject: Subject, generation: Generation): Promise<string> {
  const name = `${subject}-${generation}`;
  const output = path.join(root, 'node_modules/.cache/browser-page', name);
  const config: Configuration = {
    mode: 'development',
    devtool: false,
    context: root,
    entry: `./tests/${subject}/page/index.tsx`,
    output: { path: output, filename: 'page.js', publicPath: '/' },
    cache: { type: 'filesystem', name: `browser-page-${name}` },
    resolve: {
      alias: packagesBeside[subject] === generation ? {} : aliases(subject, generation),
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

/** The packages that a page finds beside itself. */
const packagesBeside: Record<Subject, Generation> = { browser: 'current', next: 'next' };

/** The packages that replace others in all imports. */
function aliases(subject: Subject, generation: Generation): Record<string, string> {
  const packages = packagesOf(generation);
  const names = ['data', 'i18n', 'runtime', 'schema', 'ui'].map((name) => `@grafana/${name}`);
  const others = subject === 'next' ? ['@emotion/css', 'react', 'react-dom', 'rxjs'] : [];
  return {
    '@grafana/runtime/unstable': path.join(packages, '@grafana/runtime/dist/esm/unstable.mjs'),
    ...Object.fromEntries([...names, ...others].map((name) => [name, path.join(packages, name)])),
  };
}
