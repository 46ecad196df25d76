import React from 'react';
import { Button, Dropdown, Menu, ScrollContainer } from '@grafana/ui';

import { panelLabels } from '../query/labels';
import { byFrame, Preset } from '../query/presets';
import { Mode } from '../settings';

interface Props {
  presets: Preset[];
  mode: Mode;
  onSelect: (preset: Preset) => void;
}

/** Questions that are ready to be asked, by the panel that draws the answer. */
export function PresetMenu({ presets, mode, onSelect }: Props) {
  const menu = (
    <Menu ariaLabel="Presets">
      <ScrollContainer maxHeight="60vh">
        {byFrame(presets, mode).map(([frame, group]) => (
          <Menu.Group key={frame} label={panelLabels[frame].label}>
            {group.map((preset) => (
              <Menu.Item
                key={preset.name}
                label={preset.name}
                description={preset.description}
                onClick={() => onSelect(preset)}
              />
            ))}
          </Menu.Group>
        ))}
      </ScrollContainer>
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
