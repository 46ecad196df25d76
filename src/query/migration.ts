import { migrations } from './kinds';
import { GpuQuery } from './types';

/** A word of the query model that has another name now: a text, or an entry of a list. */
interface Renamed {
  /** Of queries of this kind, as the older version named it. */
  kind: string;
  field: string;
  from: string;
  to: string;
}

/** The meaning of a field that was missing in a kind's queries before the default changed. */
interface Default {
  kind: string;
  field: string;
  value: unknown;
}

/** The change that a version of the query model made to stored queries; the backend has the same table. */
export interface Migration {
  renamed: Renamed[];
  defaults: Default[];
}

/**
 * Brings a stored query to this plugin's version; one from a newer plugin is left as it is and refused by the backend. A
 * query without a version was written by hand: it is version 1. The table leads from version n (the index plus 1) to n + 1.
 */
export function migrate(query: GpuQuery, table: Migration[] = migrations): GpuQuery {
  const steps = table.slice((query.version || 1) - 1);
  return steps.length === 0 ? query : { ...steps.reduce(migrated, query), version: table.length + 1 };
}

function migrated(query: GpuQuery, { renamed, defaults }: Migration): GpuQuery {
  const ofKind = ({ kind }: { kind: string }) => kind === query.queryType;
  const fields = Object.fromEntries(defaults.filter(ofKind).map(({ field, value }) => [field, value]));
  let result: GpuQuery & Record<string, unknown> = { ...fields, ...query };
  for (const { field, from, to } of renamed.filter(ofKind)) {
    const value = result[field];
    const rename = (word: unknown) => (word === from ? to : word);
    if (value !== undefined) {
      result = { ...result, [field]: Array.isArray(value) ? value.map(rename) : rename(value) };
    }
  }
  return result;
}
