import React, { ReactNode, useEffect, useRef } from 'react';

import { elasticsearchTexts } from '../labels';

/** Names the help icons of plugin-ui's fields, which take the focus and have no name, after the labels beside them. */
export function NamedHelp({ children }: { children: ReactNode }) {
  const fields = useRef<HTMLDivElement>(null);

  useEffect(() => {
    const nameIcons = () => {
      fields.current?.querySelectorAll('svg[tabindex="0"]:not([aria-label])').forEach((icon) => {
        icon.setAttribute('role', 'img');
        icon.setAttribute('aria-label', elasticsearchTexts.help(icon.parentElement?.textContent ?? ''));
      });
    };
    nameIcons();
    // The icons are loaded after the fields are drawn, and fields appear when they are chosen.
    const observer = new MutationObserver(nameIcons);
    observer.observe(fields.current!, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, []);

  return <div ref={fields}>{children}</div>;
}
