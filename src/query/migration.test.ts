import { readFileSync } from 'fs';
import { join } from 'path';

import { migrations, queryVersion } from './kinds';
import { migrate, Migration } from './migration';
import { GpuQuery } from './types';

const query: GpuQuery = { refId: 'A', queryType: 'allocation' };

it.each([undefined, 0, 1])('takes version %s as it is', (version) => {
  const stored = { ...query, version };
  expect(migrate(stored)).toEqual(stored);
});

it('leaves a query from a newer plugin alone', () => {
  const newer = { ...query, version: 99 };
  expect(migrate(newer)).toBe(newer);
});

it('leads to the version of this plugin', () => {
  expect(migrations).toHaveLength(queryVersion - 1);
});

// The backend's tests read the same cases (pkg/query/migrate_test.go).
const path = join(__dirname, '../../testdata/migrations/cases.json');
const file: {
  migrations: Migration[];
  cases: Array<{ name: string; query: GpuQuery; migrated: GpuQuery }>;
} = JSON.parse(readFileSync(path, 'utf8'));

it.each(file.cases)('migrates: $name', ({ query, migrated }) => {
  expect(migrate(query, file.migrations)).toEqual(migrated);
});
