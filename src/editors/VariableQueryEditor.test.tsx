import React, { useState } from 'react';
import { render, screen } from '@testing-library/react';
import userEvent, { PointerEventsCheckLevel } from '@testing-library/user-event';

import { dimensions } from '../query/kinds';
import { VariableQuery } from '../query/types';
import { testDatasource } from '../test/datasource';
import { VariableQueryEditor } from './VariableQueryEditor';

function setup(initial: Partial<VariableQuery>) {
  const onChange = jest.fn();
  const { datasource } = testDatasource([{ name: 'machine', options: [], value: '' }]);
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
  expect(await screen.findAllByRole('option')).toHaveLength(dimensions.length);
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
