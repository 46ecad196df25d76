import { DataFrame, FieldColorModeId } from '@grafana/data';

/**
 * Colors of users: any two differ by at least 15 (CIEDE2000), and each has a contrast of at least 3:1 to the panels of
 * both themes. Grafana's own colors by name repeat after few names.
 */
export const userColors = [
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
/** The color of all other users together. */
export const othersColor = '#8E8E8E';

/** The backend's name for all users without a series of their own. */
const others = 'Other';

/** The colors of names: each name has one of its own, the same in all panels that show the same names. */
export function colorsOf(names: string[]): Map<string, string> {
  const taken = new Set<number>();
  const colors = new Map<string, string>([[others, othersColor]]);
  for (const name of [...new Set(names)].filter((each) => each !== others).sort()) {
    let index = hash(name) % userColors.length;
    for (let step = 0; taken.has(index) && step < userColors.length; step++) {
      index = (index + 1) % userColors.length;
    }
    taken.add(index);
    colors.set(name, userColors[index]);
  }
  return colors;
}

/** The series of users in colors of their own; other series, and more users than there are colors, as they were. */
export function withUserColors(frames: DataFrame[]): DataFrame[] {
  const names = frames.flatMap((frame) => userOf(frame) ?? []);
  if (names.length === 0 || new Set(names.filter((name) => name !== others)).size > userColors.length) {
    return frames;
  }
  const colors = colorsOf(names);
  return frames.map((frame) => {
    const user = userOf(frame);
    const fixedColor = user === undefined ? undefined : colors.get(user);
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

/** The user whose series a frame is, if it is of users only. */
function userOf(frame: DataFrame): string | undefined {
  const labels = frame.fields?.find((field) => field.labels)?.labels ?? {};
  return 'user' in labels && Object.keys(labels).length === 1 ? labels.user : undefined;
}

function hash(text: string): number {
  return [...text].reduce((sum, character) => (sum * 31 + (character.codePointAt(0) ?? 0)) % 1_000_003, 7);
}
