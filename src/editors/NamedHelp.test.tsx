import React from 'react';
import { render, screen } from '@testing-library/react';

import { NamedHelp } from './NamedHelp';

it('names icons that take the focus after the text beside them, those that appear later too', async () => {
  const icon = <svg tabIndex={0} aria-hidden="false" />;
  const { rerender } = render(<NamedHelp>{<label>URL{icon}</label>}</NamedHelp>);
  expect(screen.getByLabelText('Help on URL')).toHaveAttribute('role', 'img');
  rerender(
    <NamedHelp>
      <label>URL{icon}</label>
      <div>
        <label>Skip TLS certificate validation</label>
        {icon}
      </div>
    </NamedHelp>
  );
  expect(await screen.findByLabelText('Help on Skip TLS certificate validation')).toBeInTheDocument();
});
