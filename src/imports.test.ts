import { existsSync, readdirSync, readFileSync } from 'fs';
import { dirname, join, resolve } from 'path';

/** The files of the front end that a file imports. */
function importsOf(file: string): string[] {
  const names = [...readFileSync(file, 'utf8').matchAll(/(?:from|import\()\s*'(\.[^']*)'/g)];
  return names
    .map(([, name]) => resolve(dirname(file), name))
    .flatMap((path) => [path, `${path}.ts`, `${path}.tsx`].filter((candidate) => /\.tsx?$/.test(candidate)))
    .filter((candidate) => existsSync(candidate));
}

/** The first circle of imports that is found from a file, as a list of files; empty if there is none. */
function circleFrom(file: string, way: string[], done: Set<string>): string[] {
  if (way.includes(file)) {
    return [...way.slice(way.indexOf(file)), file];
  }
  if (done.has(file)) {
    return [];
  }
  for (const next of importsOf(file)) {
    const circle = circleFrom(next, [...way, file], done);
    if (circle.length > 0) {
      return circle;
    }
  }
  done.add(file);
  return [];
}

describe('imports of the front end', () => {
  const files = readdirSync(__dirname, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(__dirname, name));

  it('are found', () => {
    expect(importsOf(join(__dirname, 'module.ts'))).toContain(join(__dirname, 'datasource.ts'));
  });

  it('have no circle', () => {
    const done = new Set<string>();
    expect(files.map((file) => circleFrom(file, [], done)).filter((circle) => circle.length > 0)).toEqual([]);
  });
});
