import { DataQueryResponse, FieldType } from '@grafana/data';

import { hasLinks, installedDashboards, keepLinksTo } from './dashboardLinks';

const get = jest.fn();
jest.mock('@grafana/runtime', () => ({ getBackendSrv: () => ({ get }) }));

const link = (uid: string) => ({ title: uid, url: `/d/${uid}?var-datasource=x` });
const answer = (...uids: string[]): DataQueryResponse => ({
  data: [
    {
      length: 1,
      fields: [
        { name: 'machine', type: FieldType.string, config: { links: uids.map(link), unit: 'u' }, values: ['m'] },
        { name: 'hours', type: FieldType.number, config: {}, values: [1] },
      ],
    },
    { length: 0, fields: [] },
  ],
});

it('asks for the dashboards of the plugin, quietly', async () => {
  get.mockResolvedValue([{ uid: 'a' }, { uid: 'b' }]);
  expect(await installedDashboards()).toEqual(new Set(['a', 'b']));
  const quietly = { showErrorAlert: false };
  expect(get).toHaveBeenCalledWith('/api/search', { tag: 'gpureports', type: 'dash-db' }, undefined, quietly);
});

it('leaves out links to dashboards that are not installed', () => {
  expect(keepLinksTo(new Set(['a']), answer('a', 'ab'))).toEqual(answer('a'));
  expect(keepLinksTo(new Set(), answer('a'))).toEqual(answer());
});

it('knows answers with links', () => {
  expect(hasLinks(answer('a'))).toBe(true);
  expect(hasLinks(answer())).toBe(false);
});
