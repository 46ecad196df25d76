import { DataFrame, FieldType } from '@grafana/data';

import { colorsOf, othersColor, nameColors, withNameColors } from './colors';

type Triple = [number, number, number];

function linear(color: string): Triple {
  const channel = (i: number) => {
    const c = parseInt(color.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return [channel(0), channel(1), channel(2)];
}

function luminance(color: string): number {
  const [r, g, b] = linear(color);
  return 0.2126729 * r + 0.7151522 * g + 0.072175 * b;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** CIELAB under D65. */
function lab(color: string): Triple {
  const [r, g, b] = linear(color);
  const f = (t: number) => (t > 216 / 24389 ? Math.cbrt(t) : ((24389 / 27) * t + 16) / 116);
  const x = f((0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047);
  const y = f(luminance(color));
  const z = f((0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const rad = (degrees: number) => (degrees * Math.PI) / 180;
const deg = (radians: number) => ((radians * 180) / Math.PI + 360) % 360;

/** CIEDE2000 (Sharma, Wu and Dalal 2005). */
function difference([l1, a1, b1]: Triple, [l2, a2, b2]: Triple): number {
  const mean = (Math.hypot(a1, b1) + Math.hypot(a2, b2)) / 2;
  const g = 0.5 * (1 - Math.sqrt(mean ** 7 / (mean ** 7 + 25 ** 7)));
  const [c1, c2] = [Math.hypot(a1 * (1 + g), b1), Math.hypot(a2 * (1 + g), b2)];
  const [h1, h2] = [deg(Math.atan2(b1, a1 * (1 + g))), deg(Math.atan2(b2, a2 * (1 + g)))];
  const turn = c1 * c2 === 0 ? 0 : ((h2 - h1 + 540) % 360) - 180;
  const dH = 2 * Math.sqrt(c1 * c2) * Math.sin(rad(turn / 2));
  const l = (l1 + l2) / 2;
  const c = (c1 + c2) / 2;
  const h = c1 * c2 === 0 ? h1 + h2 : (h1 + turn / 2 + 360) % 360;
  const t =
    1 -
    0.17 * Math.cos(rad(h - 30)) +
    0.24 * Math.cos(rad(2 * h)) +
    0.32 * Math.cos(rad(3 * h + 6)) -
    0.2 * Math.cos(rad(4 * h - 63));
  const sl = 1 + (0.015 * (l - 50) ** 2) / Math.sqrt(20 + (l - 50) ** 2);
  const [sc, sh] = [1 + 0.045 * c, 1 + 0.015 * c * t];
  const rt = -2 * Math.sqrt(c ** 7 / (c ** 7 + 25 ** 7)) * Math.sin(rad(60 * Math.exp(-(((h - 275) / 25) ** 2))));
  return Math.sqrt(
    ((l2 - l1) / sl) ** 2 + ((c2 - c1) / sc) ** 2 + (dH / sh) ** 2 + ((rt * (c2 - c1)) / sc) * (dH / sh)
  );
}

it('computes CIEDE2000 as published', () => {
  // pairs 1, 7, 14 and 25 of the supplementary data of Sharma, Wu and Dalal
  expect(difference([50, 2.6772, -79.7751], [50, 0, -82.7485])).toBeCloseTo(2.0425, 4);
  expect(difference([50, 0, 0], [50, -1, 2])).toBeCloseTo(2.3669, 4);
  expect(difference([50, -0.001, 2.49], [50, 0.0011, -2.49])).toBeCloseTo(4.7461, 3);
  expect(difference([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387])).toBeCloseTo(1.2644, 4);
});

describe('the colors of ten users and of all others', () => {
  const all = [...nameColors, othersColor];

  it('are told apart', () => {
    expect(nameColors).toHaveLength(10);
    all.forEach((color, i) =>
      all.slice(0, i).forEach((other) => expect(difference(lab(color), lab(other))).toBeGreaterThanOrEqual(15))
    );
  });

  it.each(['#FFFFFF', '#181B1F'])('stand out on a panel of the color %s', (background) => {
    all.forEach((color) => expect(contrast(color, background)).toBeGreaterThanOrEqual(3));
  });
});

it('gives each of ten names a color of its own, in any order', () => {
  const names = Array.from({ length: 10 }, (_, i) => `user${i}@example.org`);
  const colors = colorsOf([...names, 'Other']);
  expect(new Set(names.map((name) => colors.get(name))).size).toBe(10);
  expect(colors.get('Other')).toBe(othersColor);
  expect(colorsOf([...names].reverse())).toEqual(colors);
});

describe('series', () => {
  const series = (labels: Record<string, string>): DataFrame => ({
    length: 0,
    fields: [
      { name: 'time', type: FieldType.time, config: {}, values: [] },
      { name: 'value', type: FieldType.number, config: { unit: 'h' }, values: [], labels },
    ],
  });
  const colorOf = (frame: DataFrame) => frame.fields[1].config.color?.fixedColor;

  it.each(['user', 'project', 'jobProject'])('of the label %s are colored', (label) => {
    const [a, b, other] = withNameColors(['a', 'b', 'Other'].map((name) => series({ [label]: name })));
    expect(nameColors).toContain(colorOf(a));
    expect(nameColors).toContain(colorOf(b));
    expect(colorOf(a)).not.toBe(colorOf(b));
    expect(colorOf(other)).toBe(othersColor);
    expect(a.fields[1].config.unit).toBe('h');
  });

  it('of anything else, or of more users than there are colors, are left alone', () => {
    const devices = [series({ device: 'x' }), series({ user: 'a', device: 'x' })];
    expect(withNameColors(devices)).toBe(devices);
    const many = Array.from({ length: 11 }, (_, i) => series({ user: `u${i}` }));
    expect(withNameColors(many)).toBe(many);
  });
});
