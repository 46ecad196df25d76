import { ScopedVars } from '@grafana/data';
import { TemplateSrv } from '@grafana/runtime';

import { queryTexts } from './labels';
import { isPattern } from './query/entries';
import { Variables } from './query/interpolate';

/** Grafana's value of a variable with "All" selected. */
const allValue = '$__all';

/** Grafana's dashboard variables as queries need them, for one request. */
export function templateVariables(templateSrv: TemplateSrv, scopedVars: ScopedVars): Variables {
  return {
    values(name) {
      const reference = '${' + name + '}';
      let values: string | string[] | undefined;
      const text = templateSrv.replace(reference, scopedVars, (value: string | string[]) => {
        values = value;
        return '';
      });
      if (values === undefined) {
        // A custom "all" value is inserted as it stands, past the formatter.
        return text === reference ? undefined : [text];
      }
      if (values === '' && typeOf(templateSrv, name) === 'query') {
        throw new Error(queryTexts.emptyVariable(name)); // it would be taken for "All"
      }
      // A repeated panel has one value of its own while the dashboard's variable is still "All".
      return Array.isArray(values) && isAll(templateSrv, name) ? 'all' : [values].flat().map(String);
    },
    replace: (text) => templateSrv.replace(text, scopedVars, isPattern(text) ? 'regex' : undefined),
  };
}

function typeOf(templateSrv: TemplateSrv, name: string): string | undefined {
  return templateSrv.getVariables().find((candidate) => candidate.name === name)?.type;
}

function isAll(templateSrv: TemplateSrv, name: string): boolean {
  const variable = templateSrv.getVariables().find((candidate) => candidate.name === name);
  return variable !== undefined && 'current' in variable && [variable.current.value].flat().includes(allValue);
}
