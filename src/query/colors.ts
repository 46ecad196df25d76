import { DataFrame, FieldColorModeId } from '@grafana/data';

/**
 * Colors of users and projects: any two differ by at least 15 (CIEDE2000), and each has a contrast of at least 3:1 to
 * the panels of both themes. Grafana's own colors by name repeat after few names.
 */
export const nameColors = [
  '#960FFF',
  '#D21E1E',
  '#3CA500',
  '#0096E1',
  '#FF4B87',
  '#875A78',
  '#1E7869',
  '#9687E1',
  '#D27800',
  '#786900',
];
/** The color of all others together. */
export const othersColor = '#8E8E8E';

/** The backend's name for all users or projects without a series of their own. */
const others = 'Other';

/** The colors of names: each name has one of its own, the same in all panels that show the same names. */
export function colorsOf(names: string[]): Map<string, string> {
  const taken = new Set<number>();
  const colors = new Map<string, string>([[others, othersColor]]);
  for (const name of [...new Set(names)].filter((each) => each !== others).sort()) {
    let index = hash(name) % nameColors.length;
    for (let step = 0; taken.has(index) && step < nameColors.length; step++) {
      index = (index + 1) % nameColors.length;
    }
    taken.add(index);
    colors.set(name, nameColors[index]);
  }
  return colors;
}

/** Labels whose names get colors here: those of devices and categories have theirs on the dashboards. */
const namedLabels = ['user', 'project', 'jobProject'];

/** The series of users or projects in colors of their own; others, and more than there are colors, as they were. */
export function withNameColors(frames: DataFrame[]): DataFrame[] {
  const names = frames.flatMap((frame) => nameOf(frame) ?? []);
  if (names.length === 0 || new Set(names.filter((name) => name !== others)).size > nameColors.length) {
    return frames;
  }
  const colors = colorsOf(names);
  return frames.map((frame) => {
    const name = nameOf(frame);
    const fixedColor = name === undefined ? undefined : colors.get(name);
    return fixedColor === undefined
      ? frame
      : {
          ...frame,
          fields: frame.fields.map((field) =>
            field.labels
              ? { ...field, config: { ...field.config, color: { mode: FieldColorModeId.Fixed, fixedColor } } }
              : field
          ),
        };
  });
}

/** The user or project whose series a frame is, if it has no other label. */
function nameOf(frame: DataFrame): string | undefined {
  const labels = Object.entries(frame.fields?.find((field) => field.labels)?.labels ?? {});
  return labels.length === 1 && namedLabels.includes(labels[0][0]) ? labels[0][1] : undefined;
}

function hash(text: string): number {
  return [...text].reduce((sum, character) => (sum * 31 + (character.codePointAt(0) ?? 0)) % 1_000_003, 7);
}
