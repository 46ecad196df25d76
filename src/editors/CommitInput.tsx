import React, { ComponentProps, useState } from 'react';
import { Input } from '@grafana/ui';

interface Props extends Omit<ComponentProps<typeof Input>, 'value' | 'onChange' | 'onBlur' | 'onKeyDown' | 'ref'> {
  value: string;
  onCommit: (value: string) => void;
}

/** A text field that reports its text on blur and on Enter, not on every key. */
export function CommitInput({ value, onCommit, ...props }: Props) {
  const [draft, setDraft] = useState<string>();

  const commit = () => {
    if (draft !== undefined && draft !== value) {
      onCommit(draft);
    }
    setDraft(undefined);
  };

  return (
    <Input
      {...props}
      value={draft ?? value}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onBlur={commit}
      onKeyDown={(event) => event.key === 'Enter' && commit()}
    />
  );
}
