import AxeBuilder from '@axe-core/playwright';
import { expect, Page, test as base } from '@playwright/test';

import { Generation, pageVariable } from './pages';

interface Address {
  editor?: 'query' | 'annotation' | 'variable' | 'config';
  app?: string;
  query?: object;
  settings?: object;
  variables?: Record<string, string>;
  /** The ad-hoc filters of the dashboard. */
  adHoc?: Array<{ key: string; operator: string; value: string }>;
  theme?: 'light' | 'dark';
}

/** One of the project's editors on the test page. */
export class Editor {
  /** Paths of the requests to the backend so far, queries included. */
  readonly requests: string[] = [];

  constructor(
    readonly page: Page,
    private readonly url: string
  ) {
    page.on('request', (request) => {
      const { pathname } = new URL(request.url());
      if (pathname.startsWith('/api/')) {
        this.requests.push(pathname);
      }
    });
  }

  async open({ editor = 'query', app, theme, ...given }: Address): Promise<void> {
    const search = new URLSearchParams({ editor, ...(app && { app }), ...(theme && { theme }) });
    for (const [name, value] of Object.entries(given)) {
      search.set(name, JSON.stringify(value));
    }
    await this.page.goto(`${this.url}/?${search}`);
    await this.page.getByLabel('Saved').waitFor();
  }

  /** What Grafana would store now. */
  async saved(): Promise<Record<string, unknown>> {
    return JSON.parse((await this.page.getByLabel('Saved').textContent()) ?? '');
  }

  /** Waits until what Grafana would store holds these fields. */
  async expectSaved(fields: Record<string, unknown>): Promise<void> {
    await expect.poll(() => this.saved()).toMatchObject(fields);
  }

  answer() {
    return this.page.getByRole('region', { name: 'Answer', exact: true });
  }

  field(label: string | RegExp) {
    return this.page.getByLabel(label, typeof label === 'string' ? { exact: true } : undefined);
  }

  /** Fills a text field. A menu that is closing may still take the focus, and with it the text: then once more. */
  async fill(label: string | RegExp, value: string): Promise<void> {
    const field = this.field(label);
    await expect(async () => {
      await field.fill(value);
      await expect(field).toHaveValue(value, { timeout: 1000 });
    }).toPass();
  }

  /** Picks an option of the menu that is open, which closes it. */
  async pick(option: string): Promise<void> {
    await this.page.getByRole('option', { name: option }).click();
    await this.expectNoMenu();
  }

  /** Opens a field's menu, chooses in it, and closes it. */
  async choose(label: string, ...options: Array<string | RegExp>): Promise<void> {
    await this.field(label).click();
    for (const option of options) {
      await this.page.getByRole('option', { name: option }).click();
    }
    await this.page.keyboard.press('Escape');
    await this.expectNoMenu();
  }

  /** Waits until the last menu is gone, and with it its hold on the focus. */
  async expectNoMenu(): Promise<void> {
    await expect(this.page.getByRole('listbox')).toBeHidden();
  }

  /** How many requests of a path were made. */
  count(path: string): number {
    return this.requests.filter((made) => made.includes(path)).length;
  }

  /** The pool's values of a dimension, from whatever backend answers. */
  async values(dimension: string): Promise<string[]> {
    const response = await this.page.request.get(`${this.url}/api/datasources/uid/gpu/resources/values/${dimension}`);
    return (await response.json()).map(({ value }: { value: string }) => value);
  }

  /** Holds the page against the accessibility rules of WCAG 2 A and AA. */
  async expectAccessible(): Promise<void> {
    const { violations } = await new AxeBuilder({ page: this.page })
      .withTags(['wcag2a', 'wcag2aa'])
      // The arrow of Grafana's MultiCombobox said that it expands, though it was no control, until 12.4.
      .exclude('div[id$="-toggle-button"]')
      .analyze();
    expect(violations.map(({ id, nodes }) => ({ id, targets: nodes.map(({ html }) => html) }))).toEqual([]);
  }

  /** Expects that the browser has a name for each element that Tab focuses, for a screen reader to say. */
  async expectNamed(): Promise<void> {
    const browser = await this.page.context().newCDPSession(this.page);
    const { nodes } = await browser.send('Accessibility.getFullAXTree');
    const focusable = nodes.filter(({ ignored, role, properties }) => {
      const takesFocus = properties?.some(({ name, value }) => name === 'focusable' && value.value);
      return !ignored && takesFocus && role?.value !== 'RootWebArea';
    });
    expect(focusable.length).toBeGreaterThan(3);
    const nameless = focusable.filter(({ name }) => !name?.value);
    const elements = await Promise.all(
      nameless.map(({ backendDOMNodeId }) => browser.send('DOM.getOuterHTML', { backendNodeId: backendDOMNodeId }))
    );
    const tabStops = elements.map(({ outerHTML }) => outerHTML).filter((html) => !/^<[^>]*tabindex="-1"/.test(html));
    expect(tabStops).toEqual([]);
    await browser.detach();
  }
}

/** A test with an editor on a generation of Grafana's packages; it fails when the page throws or logs an error. */
export const test = base.extend<{ editor: Editor; generation: Generation }>({
  generation: ['current', { option: true }],
  editor: async ({ page, generation }, use) => {
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(error.message));
    page.on('console', (message) => {
      // The packages hold no fonts and not every icon; what the backend refuses is the tests' own affair.
      if (message.type() === 'error' && !/\/(public|api)\//.test(message.location().url)) {
        errors.push(`${message.text()} ${message.location().url}`);
      }
    });
    await use(new Editor(page, process.env[pageVariable('browser', generation)] ?? ''));
    expect(errors).toEqual([]);
  },
});

export { expect };
