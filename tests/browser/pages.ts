/** Which of Grafana's packages a page has: those of package.json, the oldest that the plugin supports, or the newest. */
export type Generation = 'current' | 'lowest' | 'next';

/** What a page shows: the project's editors, or the shipped dashboards, with the scenes of the newest packages. */
export type Subject = 'browser' | 'next';

/** The name in the environment under which the tests find the address of a page. */
export function pageVariable(subject: Subject, generation: Generation): string {
  return `PAGE_URL_${subject}_${generation}`.toUpperCase();
}
