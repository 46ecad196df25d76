import React from 'react';
import { Button, Dropdown, Menu } from '@grafana/ui';

import { Preset } from '../query/presets';

interface Props {
  presets: Preset[];
  onSelect: (preset: Preset) => void;
}

/** Questions that are ready to be asked. */
export function PresetMenu({ presets, onSelect }: Props) {
  const menu = (
    <Menu ariaLabel="Presets">
      {presets.map((preset) => (
        <Menu.Item
          key={preset.name}
          label={preset.name}
          description={preset.description}
          onClick={() => onSelect(preset)}
        />
      ))}
    </Menu>
  );
  return (
    <Dropdown overlay={menu} placement="bottom-end">
      <Button variant="secondary" icon="book-open">
        Presets
      </Button>
    </Dropdown>
  );
}
