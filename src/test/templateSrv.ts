import { ScopedVars, TypedVariableModel } from '@grafana/data';
import { TemplateSrv } from '@grafana/runtime';

/** A dashboard variable of the fake template service. */
export interface FakeVariable {
  name: string;
  options: string[];
  /** `$__all` when "All" is selected. */
  value: string | string[];
  allValue?: string;
  /** `custom` where it is missing. */
  type?: TypedVariableModel['type'];
  query?: object;
}

const reference = /\$(\w+)|\$\{(\w+)(?::(\w+))?\}|\[\[(\w+)(?::(\w+))?\]\]/g;

/** Grafana's template service as far as this plugin uses it, with the rules of a dashboard for "All" and formats. */
export function fakeTemplateSrv(variables: FakeVariable[] = []): TemplateSrv {
  return {
    getVariables: () =>
      variables.map(
        ({ name, value, type = 'custom', query }) =>
          ({ name, type, query, current: { value } }) as unknown as TypedVariableModel
      ),
    replace: (target = '', scopedVars: ScopedVars = {}, format?: string | Function) =>
      target.replace(reference, (match, a, b, _, c) => {
        const name = a ?? b ?? c;
        const variable = variables.find((candidate) => candidate.name === name);
        let value: string | string[] | undefined = scopedVars[name]?.value ?? variable?.value;
        if (value === undefined) {
          return match;
        }
        if (!scopedVars[name] && [value].flat().includes('$__all')) {
          if (variable?.allValue) {
            return variable.allValue;
          }
          value = variable?.options ?? [];
        }
        if (typeof format === 'function') {
          return format(value, { name });
        }
        const values = [value].flat();
        return values.length === 1 ? values[0] : format === 'regex' ? `(${values.join('|')})` : `{${values.join(',')}}`;
      }),
    containsTemplate: (target = '') => target.search(reference) >= 0,
    updateTimeRange: () => {},
  };
}
