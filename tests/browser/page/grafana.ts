import { TypedVariableModel } from '@grafana/data';
import { BackendSrv, BackendSrvRequest, FetchResponse, setBackendSrv, TemplateSrv } from '@grafana/runtime';
import { from, Observable } from 'rxjs';

/** What Grafana's own application gives to plugins, as far as the editors need it here. */
export function provideGrafana(): void {
  setBackendSrv({ fetch: (request: BackendSrvRequest) => fetchFromBridge(request) } as unknown as BackendSrv);
}

/** A template service with variables of one value each. */
export function templateSrvOf(variables: Record<string, string>): TemplateSrv {
  return {
    getVariables: () =>
      Object.entries(variables).map(
        ([name, value]) => ({ name, type: 'custom', current: { value } }) as unknown as TypedVariableModel
      ),
    replace: (target = '', _, format?: string | Function) =>
      target.replace(/\$(\w+)|\$\{(\w+)\}/g, (match, a, b) => {
        const value = variables[a ?? b];
        return value === undefined ? match : typeof format === 'function' ? format(value, { name: a ?? b }) : value;
      }),
    containsTemplate: (target = '') => target.includes('$'),
    updateTimeRange: () => {},
  };
}

function fetchFromBridge<T>({ url, method, params, data }: BackendSrvRequest): Observable<FetchResponse<T>> {
  const search = new URLSearchParams(
    Object.entries(params ?? {}).map(([key, value]): [string, string] => [key, String(value)])
  );
  const address = search.size ? `${url}?${search}` : url;
  const answer = async (): Promise<FetchResponse<T>> => {
    const response = await fetch(address, {
      method,
      headers: { 'Content-Type': 'application/json' },
      body: data === undefined ? undefined : JSON.stringify(data),
    });
    const result = { ...pick(response), data: await response.json(), config: { url } };
    if (!response.ok) {
      throw result;
    }
    return result;
  };
  return from(answer());
}

function pick({ status, statusText, ok, headers, redirected, type, url }: Response) {
  return { status, statusText, ok, headers, redirected, type, url };
}
