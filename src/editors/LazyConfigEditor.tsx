import React, { lazy, Suspense } from 'react';
import { LoadingPlaceholder } from '@grafana/ui';

import { settingTexts } from '../labels';
import { SettingsEditorProps } from './settingInputs';

/** Only the page of the settings loads them: every page with a panel loads the rest of the plugin. */
const ConfigEditor = lazy(async () => {
  const { ConfigEditor } = await import(/* webpackChunkName: "settings" */ './ConfigEditor');
  return { default: ConfigEditor };
});

export function LazyConfigEditor(props: SettingsEditorProps) {
  return (
    <Suspense fallback={<LoadingPlaceholder text={settingTexts.loading} />}>
      <ConfigEditor {...props} />
    </Suspense>
  );
}
