import { DataLink, DataQueryResponse } from '@grafana/data';
import { getBackendSrv } from '@grafana/runtime';
import { DashboardLink } from '@grafana/schema';

import { queryTexts } from './labels';

const tag = 'gpureports';

/** The link to the plugin's dashboards, as these have it themselves. */
export const defaultLinks: DashboardLink[] = [
  {
    title: queryTexts.defaultLinks,
    type: 'dashboards',
    tags: [tag],
    asDropdown: true,
    icon: 'external link',
    tooltip: '',
    url: '',
    targetBlank: false,
    includeVars: true,
    keepTime: true,
  },
];

/** The uids of the plugin's dashboards that are installed. */
export async function installedDashboards(): Promise<Set<string>> {
  const query = { tag, type: 'dash-db' };
  const found: Array<{ uid: string }> = await getBackendSrv().get('/api/search', query, undefined, {
    showErrorAlert: false,
  });
  return new Set(found.map(({ uid }) => uid));
}

/** Whether names in the answers lead to dashboards. */
export function hasLinks({ data }: DataQueryResponse): boolean {
  return data.some(({ fields = [] }) => fields.some(linked));
}

/** The answers without links to dashboards that are not there. */
export function keepLinksTo(installed: Set<string>, response: DataQueryResponse): DataQueryResponse {
  const leads = ({ url }: DataLink) => installed.has(/^\/d\/([\w-]+)/.exec(url)?.[1] ?? '');
  const data = response.data.map((frame) =>
    frame.fields?.some(linked)
      ? {
          ...frame,
          fields: frame.fields.map((field: Linked) =>
            linked(field) ? { ...field, config: { ...field.config, links: field.config?.links?.filter(leads) } } : field
          ),
        }
      : frame
  );
  return { ...response, data };
}

interface Linked {
  config?: { links?: DataLink[] };
}

function linked({ config }: Linked): boolean {
  return (config?.links?.length ?? 0) > 0;
}
