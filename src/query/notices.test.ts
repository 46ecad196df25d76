import { DataFrame, QueryResultMetaNotice } from '@grafana/data';

import { withOneNotice } from './notices';

function frame(...notices: QueryResultMetaNotice[]): DataFrame {
  return { fields: [], length: 0, meta: { executedQueryString: 'q', notices } };
}

describe('withOneNotice', () => {
  it('makes one notice of each severity, for all frames', () => {
    const answer = withOneNotice([
      frame({ severity: 'info', text: '2 gaps' }, { severity: 'warning', text: 'no job ads.' }),
      frame({ severity: 'info', text: '2 gaps' }, { severity: 'info', text: 'not enough data before' }),
    ]);
    expect(answer.map(({ meta }) => meta)).toEqual([
      {
        executedQueryString: 'q',
        notices: [
          { severity: 'info', text: '2 gaps. not enough data before.' },
          { severity: 'warning', text: 'no job ads.' },
        ],
      },
      { executedQueryString: 'q', notices: [] },
    ]);
  });

  it('leaves frames without notices alone', () => {
    const frames: DataFrame[] = [{ fields: [], length: 0 }];
    expect(withOneNotice(frames)[0]).toBe(frames[0]);
  });
});
