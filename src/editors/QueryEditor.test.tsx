import React, { useSyncExternalStore } from 'react';
import { CoreApp, dateTime, MetricFindValue, TimeRange } from '@grafana/data';
import { act, render, screen } from '@testing-library/react';
import userEvent, { PointerEventsCheckLevel } from '@testing-library/user-event';

import { defaultQuery } from '../query/defaults';
import { bucketsOf, kindNames, kinds, kindsOf } from '../query/kinds';
import { presets } from '../query/presets';
import { GpuQuery } from '../query/types';
import { Mode } from '../settings';
import { testDatasource } from '../test/datasource';
import { QueryEditor } from './QueryEditor';

interface Options {
  app?: CoreApp;
  inAnnotations?: boolean;
  /** The length of the time range. */
  minutes?: number;
  mode?: Mode;
}

/** The editor in Grafana: its changes come back to it, immediately as in Explore, or merged as in alert rules. */
function setup(
  initial: Partial<GpuQuery>,
  { app = CoreApp.PanelEditor, inAnnotations = false, minutes = 60, mode }: Options = {}
) {
  const to = 3_600_000;
  const from = to - minutes * 60_000;
  const range: TimeRange = { from: dateTime(from), to: dateTime(to), raw: { from: 'now-1h', to: 'now' } };
  const onChange = jest.fn();
  const onRunQuery = jest.fn();
  const { datasource, getResource } = testDatasource([{ name: 'machine', options: ['m1'], value: 'm1' }], { mode });
  getResource.mockImplementation(async (path: string) =>
    path === 'values/device'
      ? [
          { text: 'NVIDIA H200', value: 'NVIDIA H200' },
          { text: 'NVIDIA A100', value: 'NVIDIA A100' },
        ]
      : [{ text: 'alice@example.org', value: 'alice@example.org' }]
  );
  let held: GpuQuery = { refId: 'A', ...initial };
  let renderHolder = () => {};
  const subscribe = (listener: () => void) => {
    renderHolder = listener;
    return () => {};
  };
  function Holder() {
    const query = useSyncExternalStore(subscribe, () => held);
    return (
      <QueryEditor
        datasource={datasource}
        query={query}
        onChange={(changed) => {
          onChange(changed);
          held = { ...(app === CoreApp.UnifiedAlerting && held), ...changed };
          renderHolder();
        }}
        onRunQuery={onRunQuery}
        range={range}
        app={app}
        annotation={inAnnotations ? { name: 'a', enable: true, iconColor: 'red' } : undefined}
      />
    );
  }
  const { unmount } = render(<Holder />);
  const user = userEvent.setup({ delay: null, pointerEventsCheck: PointerEventsCheckLevel.Never });
  return { onChange, onRunQuery, getResource, user, unmount, held: () => held };
}

async function choose(user: ReturnType<typeof userEvent.setup>, label: string, option: RegExp | string) {
  await user.click(screen.getByLabelText(label));
  await user.click(await screen.findByRole('option', { name: option }));
}

describe('QueryEditor', () => {
  it('changes and runs nothing by itself', () => {
    const { onChange, onRunQuery, getResource } = setup(defaultQuery);
    expect(onChange).not.toHaveBeenCalled();
    expect(onRunQuery).not.toHaveBeenCalled();
    expect(getResource).not.toHaveBeenCalled();
  });

  it('says in words what the query answers', () => {
    setup(defaultQuery);
    expect(screen.getByRole('status')).toHaveTextContent('Allocated % of GPUs over time, by category.');
  });

  it('shows of a new query the default, which Grafana runs, but not of a new annotation', () => {
    const { unmount } = setup({});
    expect(screen.getByLabelText('Query type')).toHaveValue('Allocation');
    expect(screen.getByLabelText('View')).toHaveValue('Time series');
    expect(screen.getByRole('status')).toHaveTextContent('Allocated % of GPUs over time, by category.');
    unmount();
    setup({}, { inAnnotations: true });
    expect(screen.getByLabelText('Query type')).toHaveValue('');
    expect(screen.queryByLabelText('View')).not.toBeInTheDocument();
  });

  it('says which panel draws the answer, where there is a panel', () => {
    const { unmount } = setup({ queryType: 'evictions', view: 'hourOfWeek' });
    expect(screen.getByRole('status')).toHaveTextContent('Use the Heatmap visualization.');
    unmount();
    setup({ queryType: 'evictions', view: 'hourOfWeek' }, { app: CoreApp.Explore });
    expect(screen.getByRole('status')).not.toHaveTextContent('visualization');
  });

  it.each(kindNames.flatMap((kind) => Object.keys(kinds[kind].views).map((view) => ({ kind, view }))))(
    'shows for $kind/$view what it knows and nothing else',
    async ({ kind, view }) => {
      const { user } = setup({ queryType: kind, view });
      const spec = kinds[kind].views[view];
      const options = screen.queryByRole('button', { name: 'Options' });
      if (options) {
        await user.click(options);
      }
      const shown = (label: string) => screen.queryByLabelText(label) !== null;
      expect({
        'Group by': shown('Group by'),
        Metrics: shown('Metrics'),
        Bucket: shown('Bucket'),
        Categories: shown('Categories'),
        Users: shown('Users'),
        'Idle only': shown('Idle only'),
        'Time zone': shown('Time zone'),
        Totals: shown('Totals'),
        Duration: shown('Duration'),
        Limit: shown('Limit'),
        'Complete buckets only': shown('Complete buckets only'),
        'Period before': shown('Period before'),
        'Include old devices': shown('Include old devices'),
      }).toEqual({
        'Group by': spec.groupBy.length > 0,
        Metrics: spec.metrics.length > 0,
        Bucket: spec.options.includes('bucket'),
        Categories: spec.filters.includes('categories'),
        // In allocation's series and tables users choose among allocated GPUs only.
        Users: spec.filters.includes('users') && !spec.metrics.includes('allocated'),
        'Idle only': spec.filters.includes('idle'),
        'Time zone': spec.options.includes('timezone'),
        'Period before': spec.options.includes('previous'),
        Totals: spec.options.includes('totals'),
        Duration: spec.options.includes('duration'),
        Limit: spec.options.includes('limit'),
        'Complete buckets only': spec.options.includes('completeBucketsOnly'),
        'Include old devices': spec.options.includes('includeOldDevices'),
      });
    }
  );

  it('offers users where allocated GPUs are counted', () => {
    setup({ queryType: 'allocation', metrics: ['allocated'] });
    expect(screen.getByLabelText('Users')).toBeInTheDocument();
  });

  it('shows users that cannot choose, and says why', () => {
    setup({ queryType: 'allocation', metrics: ['free'], filter: { users: ['u'] } });
    expect(screen.getByLabelText('Users')).toBeInTheDocument();
    expect(screen.getByRole('alert')).toHaveTextContent('needs "Allocated (avg.)" as the only metric');
  });

  it('takes the metric that only users have when a view with chosen users is left', async () => {
    const filter = { users: ['u'] };
    const { onChange, user } = setup({ queryType: 'allocation', view: 'current', filter });
    await user.click(screen.getByLabelText('View'));
    await user.click(await screen.findByRole('option', { name: /^Summary/ }));
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ view: 'summary', metrics: ['allocated'], filter }));
  });

  it('gives every control a name', async () => {
    const { user } = setup(defaultQuery);
    await user.click(screen.getByRole('button', { name: 'Options' }));
    for (const role of ['combobox', 'switch', 'spinbutton', 'button'] as const) {
      for (const control of screen.queryAllByRole(role)) {
        expect(control).toHaveAccessibleName();
      }
    }
  });

  it('changes the kind, keeps what fits and runs', async () => {
    const { onChange, onRunQuery, user } = setup({
      ...defaultQuery,
      bucket: '1h',
      filter: { devices: ['NVIDIA A100'] },
    });
    await choose(user, 'Query type', /User hours/);
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(onChange).toHaveBeenCalledWith({
      refId: 'A',
      queryType: 'userHours',
      view: 'summary',
      filter: { devices: ['NVIDIA A100'] },
      version: 1,
    });
    expect(onRunQuery).toHaveBeenCalledTimes(1);
  });

  it('changes the view', async () => {
    const { onChange, user } = setup(defaultQuery);
    await choose(user, 'View', /^Machines/);
    expect(onChange).toHaveBeenCalledWith({ refId: 'A', queryType: 'allocation', view: 'machines', version: 1 });
  });

  it('groups in the order of choice', async () => {
    const { onChange, user } = setup(defaultQuery);
    await choose(user, 'Group by', /^Device/);
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ groupBy: ['category', 'device'] }));
  });

  it('can group by nothing', async () => {
    const { onChange, user } = setup({ queryType: 'allocation', view: 'timeseries' });
    // Backspace would do in Grafana 12, but not in 13.
    await user.click(screen.getByRole('button', { name: 'Remove Category' }));
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ groupBy: [] }));
  });

  it('chooses metrics and bucket', async () => {
    const { onChange, user } = setup(defaultQuery);
    await choose(user, 'Metrics', /^Free/);
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ metrics: ['free'] }));
    await user.keyboard('{Escape}');
    await choose(user, 'Bucket', '1h');
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ bucket: '1h' }));
  });

  it('asks a preset', async () => {
    const { onChange, onRunQuery, user } = setup(defaultQuery);
    await user.click(screen.getByRole('button', { name: 'Presets' }));
    await user.click(await screen.findByRole('menuitem', { name: /H200 usage by user/ }));
    const { query } = presets.find(({ name }) => name === 'H200 usage by user')!;
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ refId: 'A', ...query }));
    expect(onRunQuery).toHaveBeenCalledTimes(1);
  });

  it('has presets of their own for annotations', async () => {
    const { onChange, user } = setup({}, { inAnnotations: true });
    await user.click(screen.getByRole('button', { name: 'Presets' }));
    expect(screen.getAllByRole('menuitem')).toHaveLength(2);
    await user.click(screen.getByRole('menuitem', { name: /Collector gaps/ }));
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ queryType: 'allocation', view: 'annotations' }));
  });

  it('shows what is wrong with a stored query', () => {
    setup({ queryType: 'allocation', view: 'timeseries', metrics: ['gpuHours'] });
    expect(screen.getByRole('alert')).toHaveTextContent('allocation/timeseries has no metric "gpuHours"');
  });
});

describe('filters', () => {
  it("load the pool's values when opened, under the other filters, and once", async () => {
    const { onChange, onRunQuery, getResource, user } = setup({ ...defaultQuery, filter: { machines: ['m'] } });
    await user.click(screen.getByLabelText('Devices'));
    expect(await screen.findByText('NVIDIA H200')).toBeInTheDocument();
    expect(getResource).toHaveBeenCalledTimes(1);
    expect(getResource).toHaveBeenCalledWith(
      'values/device',
      { filter: '{"machines":["m"]}', from: 0, to: 3_600_000 },
      { showErrorAlert: false }
    );
    await user.click(screen.getByText('NVIDIA H200'));
    expect(onChange).toHaveBeenCalledWith(
      expect.objectContaining({ filter: { machines: ['m'], devices: ['NVIDIA H200'] } })
    );
    expect(onRunQuery).toHaveBeenCalledTimes(1);
  });

  it('ask and run nothing while something is typed', async () => {
    const { onChange, onRunQuery, getResource, user } = setup(defaultQuery);
    await user.type(screen.getByLabelText('Devices'), '/H200|A100/');
    expect(getResource).toHaveBeenCalledTimes(1);
    expect(onChange).not.toHaveBeenCalled();
    expect(onRunQuery).not.toHaveBeenCalled();
  });

  it('take over what was typed on Enter', async () => {
    const { onChange, onRunQuery, user } = setup(defaultQuery);
    await user.type(screen.getByLabelText('Devices'), '/H2.0$/{Enter}');
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ filter: { devices: ['/H2.0$/'] } }));
    expect(onRunQuery).toHaveBeenCalledTimes(1);
  });

  it('take over what was typed on blur', async () => {
    const { onChange, onRunQuery, user } = setup(defaultQuery);
    await user.type(screen.getByLabelText('Machines'), 'gpu7.example.org');
    await act(async () => screen.getByLabelText('Machines').blur());
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ filter: { machines: ['gpu7.example.org'] } }));
    expect(onRunQuery).toHaveBeenCalledTimes(1);
  });

  it('forget what was typed on Escape', async () => {
    const { onChange, user } = setup(defaultQuery);
    await user.type(screen.getByLabelText('Machines'), 'gpu7{Escape}');
    await act(async () => screen.getByLabelText('Machines').blur());
    expect(onChange).not.toHaveBeenCalled();
  });

  it('offer variables, but not in alert rules', async () => {
    const { user } = setup(defaultQuery);
    await user.click(screen.getByLabelText('Devices'));
    expect(await screen.findByText('$machine')).toBeInTheDocument();
  });

  it('offer no variables in alert rules', async () => {
    const { user } = setup(defaultQuery, { app: CoreApp.UnifiedAlerting });
    await user.click(screen.getByLabelText('Devices'));
    expect(await screen.findByText('NVIDIA H200')).toBeInTheDocument();
    expect(screen.queryByText('$machine')).not.toBeInTheDocument();
  });

  it('choose among the categories by name without asking, and take no others', async () => {
    const { onChange, getResource, user } = setup(defaultQuery);
    await user.click(screen.getByLabelText('Categories'));
    await user.click(await screen.findByText('Open Capacity'));
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ filter: { categories: ['Shared'] } }));
    await user.type(screen.getByLabelText('Categories'), 'Other{Enter}');
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(getResource).not.toHaveBeenCalled();
  });

  it('show categories by name', () => {
    setup({ ...defaultQuery, filter: { categories: ['Shared'] } });
    expect(screen.getByText('Open Capacity')).toBeInTheDocument();
  });

  it('say why no values can be offered, and offer variables all the same', async () => {
    const { getResource, user } = setup(defaultQuery);
    getResource.mockRejectedValue({ status: 400, data: { message: 'no such directory' } });
    await user.click(screen.getByLabelText('Devices'));
    expect(await screen.findByText('Failed to load values: no such directory')).toBeInTheDocument();
    expect(screen.getByText('$machine')).toBeInTheDocument();
  });

  it('show the values of the last load, however long one before it takes', async () => {
    const { getResource, user } = setup(defaultQuery);
    const loads: Array<(values: MetricFindValue[]) => void> = [];
    getResource.mockImplementation(() => new Promise((resolve) => loads.push(resolve)));
    await user.click(screen.getByLabelText('Devices'));
    await user.keyboard('{Escape}');
    await user.click(screen.getByLabelText('Devices'));
    await act(async () => loads[1]([{ text: 'second' }]));
    await act(async () => loads[0]([{ text: 'first' }]));
    expect(await screen.findByText('second')).toBeInTheDocument();
    expect(screen.queryByText('first')).not.toBeInTheDocument();
  });

  it('know GPUs without a project by name', async () => {
    const { onChange, getResource, user } = setup({ ...defaultQuery, filter: { projects: ['/^$/'] } });
    expect(screen.getByText('No project')).toBeInTheDocument();
    expect(screen.getByRole('status')).toHaveTextContent('Only projects No project.');
    getResource.mockResolvedValue([
      { text: 'No project', value: '/^$/' },
      { text: 'physics', value: 'physics' },
    ]);
    await user.click(screen.getByLabelText('Projects'));
    await user.click(await screen.findByText('physics'));
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ filter: { projects: ['/^$/', 'physics'] } }));
  });

  it('choose idle machines', async () => {
    const { onChange, user } = setup({ queryType: 'allocation', view: 'machines' });
    await user.click(screen.getByLabelText('Idle only'));
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ filter: { idle: true } }));
  });
});

describe('options', () => {
  const open = async (query: Partial<GpuQuery>) => {
    const result = setup(query);
    await result.user.click(screen.getByRole('button', { name: 'Options' }));
    return result;
  };

  it('set a limit on blur or Enter, not on every key', async () => {
    const { onChange, onRunQuery, user } = await open(defaultQuery);
    await user.type(screen.getByLabelText('Limit'), '25');
    expect(onChange).not.toHaveBeenCalled();
    await user.keyboard('{Enter}');
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ limit: 25 }));
    await user.tab();
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(onRunQuery).toHaveBeenCalledTimes(1);
    await user.clear(screen.getByLabelText('Limit'));
    await user.tab();
    expect(onChange.mock.lastCall[0].limit).toBeUndefined();
  });

  it('switch totals against the default', async () => {
    const { onChange, user } = await open({ queryType: 'userHours', metrics: ['gpuHours'] });
    expect(screen.getByLabelText('Totals')).not.toBeChecked();
    await user.click(screen.getByLabelText('Totals'));
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ totals: true }));
  });

  it('leave out old devices and incomplete buckets', async () => {
    const { onChange, user } = await open(defaultQuery);
    await user.click(screen.getByLabelText('Include old devices'));
    await user.click(screen.getByLabelText('Complete buckets only'));
    expect(onChange).toHaveBeenLastCalledWith(
      expect.objectContaining({ includeOldDevices: false, completeBucketsOnly: true })
    );
  });

  it('set the duration', async () => {
    const { onChange, user } = await open({ queryType: 'backfillAvailability', view: 'survival' });
    await choose(user, 'Duration', /^Vacancy/);
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ duration: 'vacancy' }));
  });

  it('set the time zone', async () => {
    const { onChange, user } = await open(defaultQuery);
    await user.type(screen.getByLabelText('Time zone'), 'Chicago');
    await user.click(await screen.findByRole('option', { name: 'America/Chicago' }));
    expect(onChange).toHaveBeenLastCalledWith(expect.objectContaining({ timezone: 'America/Chicago' }));
  });
});

describe('picking by mouse', () => {
  it.each([
    ['Query type', /User hours/],
    ['View', /^Machines/],
    ['Bucket', '1h'],
    ['Group by', /^Device/],
    ['Metrics', /^Free/],
  ])('counts one query, though the holder renders at once: %s', async (label, option) => {
    const { onChange, onRunQuery, user } = setup(defaultQuery, { app: CoreApp.Explore });
    await choose(user, label, option);
    expect(onChange).toHaveBeenCalledTimes(1);
    expect(onRunQuery).toHaveBeenCalledTimes(1);
  });

  it('takes a choice back', async () => {
    const { onChange, user, held } = setup(defaultQuery, { app: CoreApp.Explore });
    await choose(user, 'Bucket', '1h');
    await choose(user, 'Bucket', '1d');
    await choose(user, 'Bucket', '1h');
    expect(onChange).toHaveBeenCalledTimes(3);
    expect(held().bucket).toBe('1h');
  });
});

describe('in alert rules', () => {
  it('takes away what is cleared, though Grafana merges an edited query into the stored one', async () => {
    const { user, held } = setup(
      {
        queryType: 'allocation',
        view: 'timeseries',
        metrics: ['free'],
        bucket: '1h',
        filter: { devices: ['NVIDIA A100'] },
      },
      { app: CoreApp.UnifiedAlerting }
    );
    await user.click(screen.getByLabelText('Devices'));
    await user.keyboard('{Backspace}');
    expect(held().filter).toBeUndefined();
    await user.keyboard('{Escape}');
    await choose(user, 'Query type', /User hours/);
    expect(JSON.parse(JSON.stringify(held()))).toEqual({
      refId: 'A',
      queryType: 'userHours',
      view: 'summary',
      version: 1,
    });
  });

  it('warns about a time range that can be without a finished slice', () => {
    setup({ queryType: 'allocation', view: 'timeseries' }, { app: CoreApp.UnifiedAlerting, minutes: 10 });
    expect(screen.getByRole('alert', { name: /range of 10 minutes/ })).toHaveTextContent('Use at least 30');
  });

  it('hands a new rule its default query, which Grafana would only show, and leaves a stored query alone', () => {
    const isNew = setup(defaultQuery, { app: CoreApp.UnifiedAlerting });
    expect(isNew.onChange.mock.calls).toEqual([[{ refId: 'A', ...defaultQuery, view: 'timeseries' }]]);
    const stored = setup({ ...defaultQuery, view: 'summary' }, { app: CoreApp.UnifiedAlerting });
    expect(stored.onChange).not.toHaveBeenCalled();
  });

  it('warns about views that cannot alert and about variables', () => {
    setup(
      { queryType: 'allocation', view: 'current', filter: { machines: ['$machine'] } },
      { app: CoreApp.UnifiedAlerting }
    );
    const warning = screen.getByRole('alert', { name: /can't be used in alert rules/ });
    expect(warning).toHaveTextContent("Alert rules don't support dashboard variables. Replace $machine.");
  });

  it('offers alert rules the views that can alert', async () => {
    const { user } = setup({ queryType: 'allocation', view: 'summary' }, { app: CoreApp.UnifiedAlerting });
    await user.click(screen.getByLabelText('View'));
    const names = (await screen.findAllByRole('option')).map((option) => option.textContent);
    expect(names).toContainEqual(expect.stringMatching(/^Time series/));
    expect(names).not.toContainEqual(expect.stringMatching(/^State timeline/));
  });

  it('does not warn about what can alert, nor outside of alert rules', () => {
    setup(defaultQuery, { app: CoreApp.UnifiedAlerting });
    setup({ queryType: 'allocation', view: 'current' });
    expect(screen.queryByText(/can't be used/)).not.toBeInTheDocument();
  });
});

it('works with the keyboard alone', async () => {
  const { onChange, user } = setup(defaultQuery);
  await user.tab();
  expect(screen.getByLabelText('Query type')).toHaveFocus();
  await user.keyboard('{ArrowDown}');
  expect(await screen.findAllByRole('option')).toHaveLength(kindNames.length);
  await user.keyboard('{ArrowDown}{Enter}');
  expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ queryType: 'userHours' }));
});

describe('in a data source of many pools', () => {
  const specs = Object.entries(kindsOf.fleet).flatMap(([kind, { views }]) =>
    Object.entries(views).map(([view, spec]) => ({ kind, view, spec }))
  );

  it.each(specs)('$kind/$view has what the facts can answer', async ({ kind, view, spec }) => {
    const { user } = setup({ queryType: kind, view }, { mode: 'fleet' });
    expect(screen.queryByRole('alert')).not.toBeInTheDocument();
    const offered = async (label: string) => {
      await user.click(screen.getByLabelText(label));
      return (await screen.findAllByRole('option')).length;
    };
    if (spec.groupBy.length > 0) {
      expect(await offered('Group by')).toBe(spec.groupBy.length);
      await user.keyboard('{Escape}');
    }
    if (spec.options.includes('bucket')) {
      expect(await offered('Bucket')).toBe(bucketsOf(spec).length);
      expect(screen.queryByRole('option', { name: '15m' })).not.toBeInTheDocument();
      await user.keyboard('{Escape}');
    }
    expect(screen.getByLabelText('Pools')).toBeInTheDocument();
    expect(screen.queryByLabelText('Machines')).not.toBeInTheDocument();
  });

  it('offers the kinds and views that there are', async () => {
    const { user } = setup(defaultQuery, { mode: 'fleet' });
    await user.click(screen.getByLabelText('Query type'));
    expect(await screen.findAllByRole('option')).toHaveLength(Object.keys(kindsOf.fleet).length);
    await user.keyboard('{Escape}');
    await user.click(screen.getByLabelText('View'));
    expect(await screen.findAllByRole('option')).toHaveLength(Object.keys(kindsOf.fleet.allocation.views).length);
    expect(screen.queryByRole('option', { name: /^Machines/ })).not.toBeInTheDocument();
  });

  it('keeps the grouping and the filter by pool', async () => {
    const stored = { ...defaultQuery, groupBy: ['pool'], filter: { pools: ['CHTC'], machines: ['m'] } };
    const { onChange, user } = setup(stored, { mode: 'fleet' });
    await choose(user, 'Metrics', /^Free/);
    expect(onChange).toHaveBeenLastCalledWith(
      expect.objectContaining({ groupBy: ['pool'], filter: { pools: ['CHTC'] }, metrics: ['free'] })
    );
    expect(screen.getByRole('status')).toHaveTextContent('Free of GPUs over time, by pool. Only pools CHTC');
  });

  it("says that a question is one for the pool's data source", () => {
    setup({ queryType: 'allocation', view: 'current' }, { mode: 'fleet' });
    expect(screen.getByRole('alert')).toHaveTextContent('Unknown view "current" of allocation');
    expect(screen.getByRole('alert')).toHaveTextContent("Use the pool's own data source");
  });

  it('has presets that can be answered', async () => {
    const { onChange, user } = setup(defaultQuery, { mode: 'fleet' });
    await user.click(screen.getByRole('button', { name: 'Presets' }));
    expect(screen.queryByRole('menuitem', { name: /Idle machines/ })).not.toBeInTheDocument();
    await user.click(screen.getByRole('menuitem', { name: /Allocation by pool/ }));
    expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ groupBy: ['pool'] }));
  });
});
