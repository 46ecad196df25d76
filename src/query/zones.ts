import { getTimeZones } from '@grafana/data';

const zones = getTimeZones();

/** The time zones to choose from. */
export const zoneOptions = zones.map((zone) => ({ value: zone, label: zone }));

/**
 * The time zone that a typed text means: the one of this name, or the only one with this city or part of its name,
 * in upper or lower case, and with blanks for underscores. Otherwise the text itself.
 */
export function zoneNamed(text: string): string {
  const typed = text.trim().replaceAll(' ', '_').toLowerCase();
  const only = (fits: (zone: string) => boolean) => {
    const found = typed === '' ? [] : zones.filter((zone) => fits(zone.toLowerCase()));
    return found.length === 1 ? found[0] : undefined;
  };
  return (
    only((zone) => zone === typed) ??
    only((zone) => zone.endsWith(`/${typed}`)) ??
    only((zone) => zone.includes(typed)) ??
    text
  );
}
