/**
 * Entries of a filter's lists: an exact value, or an RE2 pattern between slashes; with a leading `!` it excludes. An exact
 * value that begins with `!` is chosen by a backslash before it, and excluded by a second `!`.
 */

/** Whether an entry excludes what it names. */
export function excludes(entry: string): boolean {
  return entry.startsWith('!');
}

/** The entry that excludes what another chooses, and the other way round. */
export function negated(entry: string): string {
  return excludes(entry) ? entryOf(entry.slice(1)) : '!' + named(entry);
}

/** What an entry names: a value or a pattern. */
export function named(entry: string): string {
  return excludes(entry) || entry.startsWith('\\!') ? entry.slice(1) : entry;
}

/** The entry that chooses exactly this value. */
export function entryOf(value: string): string {
  return excludes(value) ? '\\' + value : value;
}

/** Whether an entry is a /pattern/ and no exact value. */
export function isPattern(entry: string): boolean {
  const text = named(entry);
  return text.length > 1 && text.startsWith('/') && text.endsWith('/');
}

/** Whether an entry is no broken pattern, as far as JavaScript can tell of RE2. */
export function isUsable(entry: string): boolean {
  if (!isPattern(entry)) {
    return true;
  }
  const pattern = entry.slice(entry.indexOf('/') + 1, -1);
  if (/\(\?<?[=!]|\\[1-9]/.test(pattern)) {
    return false; // RE2 neither looks around nor refers back
  }
  try {
    new RegExp(
      pattern.replace(/\(\?P</g, '(?<').replace(/\(\?[imsU-]+(:|\))/g, (_, end) => (end === ':' ? '(?:' : ''))
    );
    return true;
  } catch {
    return false;
  }
}

/** GPUs without a project, as an entry: the empty text itself would be no entry. */
export const noProject = { value: '/^$/', label: 'No project' };
