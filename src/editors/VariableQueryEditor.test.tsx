import React, { useState } from 'react';
import { render, screen } from '@testing-library/react';
import userEvent, { PointerEventsCheckLevel } from '@testing-library/user-event';

import { dimensionsOf } from '../query/kinds';
import { VariableQuery } from '../query/types';
import { Mode } from '../settings';
import { testDatasource } from '../test/datasource';
import { VariableQueryEditor } from './VariableQueryEditor';

function setup(initial: Partial<VariableQuery>, mode?: Mode) {
  const onChange = jest.fn();
  const { datasource } = testDatasource([{ name: 'machine', options: [], value: '' }], { mode });
  function Holder() {
    const [query, setQuery] = useState({ refId: '', ...initial });
    return (
      <VariableQueryEditor
        datasource={datasource}
        query={query}
        onChange={(changed) => {
          onChange(changed);
          setQuery(changed);
        }}
        onRunQuery={() => {}}
      />
    );
  }
  render(<Holder />);
  return { onChange, user: userEvent.setup({ delay: null, pointerEventsCheck: PointerEventsCheckLevel.Never }) };
}

it('chooses a dimension', async () => {
  const { onChange, user } = setup({});
  expect(screen.queryByLabelText('Devices')).not.toBeInTheDocument();
  await user.click(screen.getByLabelText('Values of'));
  expect(await screen.findAllByRole('option')).toHaveLength(dimensionsOf.pool.length);
  await user.click(screen.getByRole('option', { name: /^Users/ }));
  expect(onChange).toHaveBeenCalledWith({ refId: 'GpuReportsVariable', dimension: 'user', query: 'Users.' });
});

it('filters by every other dimension and by variables', async () => {
  const { onChange, user } = setup({ dimension: 'device' });
  expect(screen.queryByLabelText('Devices')).not.toBeInTheDocument();
  await user.click(screen.getByLabelText('Machines'));
  await user.click(await screen.findByText('$machine'));
  expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ filter: { machines: ['$machine'] } }));
});

it('drops the filter by what is now the dimension itself', async () => {
  const { onChange, user } = setup({ dimension: 'device', filter: { machines: ['m'], users: ['u'] } });
  await user.click(screen.getByLabelText('Values of'));
  await user.click(await screen.findByRole('option', { name: 'Machines' }));
  expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ dimension: 'machine', filter: { users: ['u'] } }));
});

it('has the pools of a data source of many, and no machines', async () => {
  const { onChange, user } = setup({ dimension: 'device', filter: { pools: ['a'], machines: ['m'] } }, 'fleet');
  expect(screen.getByLabelText('Pools')).toBeInTheDocument();
  expect(screen.queryByLabelText('Machines')).not.toBeInTheDocument();
  await user.click(screen.getByLabelText('Values of'));
  expect(await screen.findAllByRole('option')).toHaveLength(dimensionsOf.fleet.length);
  await user.click(screen.getByRole('option', { name: /^Memory/ }));
  expect(onChange).toHaveBeenCalledWith(expect.objectContaining({ dimension: 'memory', filter: { pools: ['a'] } }));
});
