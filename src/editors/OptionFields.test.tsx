import React, { useState } from 'react';
import { render, screen } from '@testing-library/react';
import userEvent, { PointerEventsCheckLevel } from '@testing-library/user-event';

import { kinds, optionNames } from '../query/kinds';
import { GpuQuery } from '../query/types';
import { OptionFields } from './OptionFields';

function setup(initial: Partial<GpuQuery> = {}) {
  const onChange = jest.fn();
  function Holder() {
    const [query, setQuery] = useState<GpuQuery>({ refId: 'A', ...initial });
    return (
      <OptionFields
        id="q"
        query={query}
        spec={{ ...kinds.allocation.views.timeseries, options: optionNames }}
        onChange={(change) => {
          onChange(change);
          setQuery((before) => ({ ...before, ...change }));
        }}
        asCommandLine={() => 'gpureports query'}
      />
    );
  }
  render(<Holder />);
  const user = userEvent.setup({ delay: null, pointerEventsCheck: PointerEventsCheckLevel.Never });
  return { user, onChange, open: () => user.click(screen.getByRole('button', { name: 'Options' })) };
}

describe('OptionFields', () => {
  it.each<[string, string, Partial<GpuQuery>, Partial<GpuQuery>]>([
    ['Job lengths', '24; 6, 6 $hours x -1', { jobHours: ['$hours', 6, 24] }, { jobHours: [] }],
    ['Checkpoint overhead', '7.5', { overheadMinutes: 7.5 }, { overheadMinutes: undefined }],
    ['Started within', '30', { withinMinutes: 30 }, { withinMinutes: undefined }],
    ['Failed within', '5', { shortMinutes: 5 }, { shortMinutes: undefined }],
    ['Last', '2d', { last: '2d' }, { last: '' }],
    ['Legend', '{{{{device}} free', { legend: '{{device}} free' }, { legend: '' }],
    ['Limit', '25', { limit: 25 }, { limit: undefined }],
  ])('hands over %s on Enter, and takes it away', async (label, typed, written, cleared) => {
    const { user, onChange, open } = setup();
    await open();
    await user.type(screen.getByLabelText(label), typed);
    expect(onChange).not.toHaveBeenCalled();
    await user.keyboard('{Enter}');
    expect(onChange.mock.calls).toEqual([[written]]);
    await user.clear(screen.getByLabelText(label));
    await user.keyboard('{Enter}');
    expect(onChange).toHaveBeenLastCalledWith(cleared);
  });

  it.each<[string, Partial<GpuQuery>]>([
    ['Totals', { totals: false }],
    ['Period before', { previous: true }],
    ['Complete buckets only', { completeBucketsOnly: true }],
    ['Include old devices', { includeOldDevices: false }],
  ])('switches %s', async (label, change) => {
    const { user, onChange, open } = setup();
    await open();
    await user.click(screen.getByLabelText(label));
    expect(onChange.mock.calls).toEqual([[change]]);
  });

  it.each<[string, string, Partial<GpuQuery>]>([
    ['Duration', 'Vacancy', { duration: 'vacancy' }],
    ['Time zone', 'America/Chicago', { timezone: 'America/Chicago' }],
  ])('chooses %s', async (label, option, change) => {
    const { user, onChange, open } = setup();
    await open();
    await user.click(screen.getByLabelText(label));
    await user.type(screen.getByLabelText(label), option);
    await user.click(await screen.findByRole('option', { name: new RegExp(`^${option}`) }));
    expect(onChange).toHaveBeenLastCalledWith(change);
  });

  it('has a field for every option', async () => {
    const { open } = setup();
    await open();
    for (const option of optionNames.filter((name) => name !== 'bucket')) {
      expect(document.getElementById(`q-${option}`)).toBeInTheDocument();
    }
  });
});
