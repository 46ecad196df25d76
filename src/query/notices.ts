import { DataFrame, QueryResultMetaNotice } from '@grafana/data';

/**
 * The frames with the notices of all of them on the first one, one for each severity: of several with the same severity
 * Grafana shows the last one only, and the one that says how to read a figure would hide the others.
 */
export function withOneNotice(frames: DataFrame[]): DataFrame[] {
  const texts = new Map<QueryResultMetaNotice['severity'], Set<string>>();
  for (const { severity, text } of frames.flatMap(({ meta }) => meta?.notices ?? [])) {
    texts.set(severity, (texts.get(severity) ?? new Set()).add(sentence(text)));
  }
  const notices = [...texts].map(([severity, all]) => ({ severity, text: [...all].join(' ') }));
  return frames.map((frame, index) => {
    const shown = index === 0 ? notices : [];
    return shown.length > 0 || frame.meta?.notices?.length
      ? { ...frame, meta: { ...frame.meta, notices: shown } }
      : frame;
  });
}

/** A notice begins as it is written, with its figure or a word of the query, and ends as a sentence. */
function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
