import { queryVersion } from './kinds';
import { GpuQuery } from './types';

/** What leads from version n (the index) to version n + 1. A query without a version was written by hand: it is version 1. */
const steps: Record<number, (query: GpuQuery) => GpuQuery> = {};

/** Brings a stored query to this plugin's version; one from a newer plugin is left as it is and refused by the backend. */
export function migrate(query: GpuQuery): GpuQuery {
  let migrated = query;
  for (let version = query.version || 1; version < queryVersion; version++) {
    migrated = { ...steps[version](migrated), version: version + 1 };
  }
  return migrated;
}
