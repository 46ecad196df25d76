import { datasource, expect, test } from './plugin';

/** A project, the waits of its jobs that began while backfill held its GPUs, and how many of them started in 10 minutes. */
interface Owner {
  project: string;
  waits: number;
  percent: number;
}

const week = { from: 'now-7d', to: 'now' };

test('an owner sees what he gave and what it cost him', async ({ readProvisionedDataSource, page }) => {
  const { uid } = await readProvisionedDataSource(datasource);

  /** The columns of an answer, by name. */
  const ask = async (query: object): Promise<Record<string, unknown[]>> => {
    const queries = [{ refId: 'A', datasource: { uid }, ...query }];
    const response = await page.request.post('/api/ds/query', { data: { queries, ...week } });
    const [{ schema, data }] = (await response.json()).results.A.frames;
    return Object.fromEntries(schema.fields.map(({ name }: { name: string }, i: number) => [name, data.values[i]]));
  };

  // the owner whose jobs waited most often while backfill held his GPUs
  const waits = await ask({
    queryType: 'demand',
    view: 'summary',
    groupBy: ['project', 'ownGpus'],
    metrics: ['waits', 'withinPercent'],
    filter: { ownGpus: ['backfill'] },
    totals: false,
  });
  const owners = waits.project.map(
    (project, i) => ({ project, waits: waits.waits[i], percent: waits.withinPercent[i] }) as Owner
  );
  const owner = owners.reduce((most, one) => (one.waits > most.waits ? one : most));
  const filter = { projects: [owner.project], slots: ['Backfill'] };
  const given = await ask({ queryType: 'userHours', view: 'summary', groupBy: [], metrics: ['gpuHours'], filter });
  const hours = Math.round(Number(given.gpuHours[0]));
  expect(hours).toBeGreaterThan(0);

  await page.goto(
    `/d/gpureports-owners?${new URLSearchParams({ ...week, 'var-datasource': uid, 'var-project': owner.project })}`
  );
  const panel = (title: string) => page.getByTestId(`data-testid Panel header ${title}`);
  await expect(panel('Given')).toContainText(hours.toLocaleString('en-US'));
  const cost = panel('What lending cost');
  await expect(cost).toContainText('Backfill held them');
  await expect(cost).toContainText('Enough were free');
  await expect(cost).toContainText(`${owner.percent.toFixed(1)}%`);
  await page.screenshot({ path: test.info().outputPath('owners.png') });
});
