import React from 'react';
import { config } from '@grafana/runtime';
import {
  AdvancedHttpSettings,
  Auth,
  AuthMethod,
  ConfigSection,
  ConnectionSettings,
  convertLegacyAuthProps,
  SecureSocksProxyToggle,
  Space,
} from '@grafana/plugin-ui';

import { elasticsearchTexts } from '../labels';
import { NamedHelp } from './NamedHelp';
import { SettingsEditorProps } from './settingInputs';

/** How the server is reached that holds job ads, facts or both. */
export function ElasticsearchSection({ options, onOptionsChange }: SettingsEditorProps) {
  return (
    <ConfigSection title="Elasticsearch" description={elasticsearchTexts.section}>
      <NamedHelp>
        <ConnectionSettings
          config={options}
          onChange={onOptionsChange}
          urlLabel="Elasticsearch URL"
          urlPlaceholder="https://elasticsearch.example.org:9200"
          urlTooltip={elasticsearchTexts.url}
        />
        <Space v={3} />
        <Auth
          {...convertLegacyAuthProps({ config: options, onChange: onOptionsChange })}
          visibleMethods={[AuthMethod.BasicAuth, AuthMethod.NoAuth]}
        />
        <Space v={3} />
        <AdvancedHttpSettings config={options} onChange={onOptionsChange} />
        {config.secureSocksDSProxyEnabled && (
          <SecureSocksProxyToggle dataSourceConfig={options} onChange={onOptionsChange} labelWidth={24} />
        )}
      </NamedHelp>
    </ConfigSection>
  );
}
