/**
 * Entries of a filter's lists: an exact value, or an RE2 pattern between slashes; with a leading `!` it excludes. An exact
 * value that begins with `!` is chosen by a backslash before it, and excluded by a second `!`.
 */

/** Whether an entry excludes its value. */
export function excludes(entry: string): boolean {
  return entry.startsWith('!');
}

/** The entry that excludes the value that another chooses, and the other way round. */
export function negated(entry: string): string {
  return excludes(entry) ? entryOf(entry.slice(1)) : '!' + named(entry);
}

/** The value or the pattern of an entry. */
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

/** Whether an entry is not a broken pattern, as far as JavaScript can tell of RE2. */
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

/** The entry that chooses every value that contains a text; one with a `*` stands for any text, as in file names. */
export function containing(text: string): string {
  const parts = text.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return parts.length > 1 ? `/^${parts.join('.*')}$/` : `/${parts[0]}/`;
}

/** Whether an entry chooses or excludes one of some values, as far as JavaScript can tell of RE2; variables do. */
export function matchesSome(entry: string, values: string[]): boolean {
  const text = named(entry);
  if (text.includes('$') && !isPattern(entry)) {
    return true;
  }
  if (!isPattern(entry)) {
    return values.includes(text);
  }
  try {
    const pattern = new RegExp(text.slice(1, -1));
    return values.some((value) => pattern.test(value));
  } catch {
    return true; // a pattern that JavaScript cannot read is for the backend to judge
  }
}

/**
 * The entry that a typed text means where it is not chosen from the menu: the value of this name, a pattern or a variable
 * as it stands, otherwise every value that contains the text, and if none does the text itself.
 */
export function entryOfTyped(typed: string, values: string[]): string {
  const prefix = excludes(typed) ? '!' : '';
  const text = named(typed).trim();
  const isExact = isPattern(text) || text.includes('$') || values.includes(text);
  return prefix + (isExact || !matchesSome(containing(text), values) ? text : containing(text));
}

/** GPUs without a project, as an entry: the empty text itself would be no entry. */
export const noProject = { value: '/^$/', label: 'No project' };
