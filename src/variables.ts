import { CustomVariableSupport, DataQueryRequest, DataQueryResponse } from '@grafana/data';
import { from, map, Observable, of } from 'rxjs';

import { VariableQueryEditor } from './editors/VariableQueryEditor';
import { GpuQuery, VariableQuery } from './query/types';
import { GpuSource } from './query/values';
import { GpuSettings } from './settings';

/** Dashboard variables: the values of a dimension, under a filter that may name other variables. */
export class GpuVariables extends CustomVariableSupport<GpuSource, VariableQuery, GpuQuery, GpuSettings> {
  editor = VariableQueryEditor;

  constructor(private readonly datasource: GpuSource) {
    super();
  }

  query({ targets, range, scopedVars }: DataQueryRequest<VariableQuery>): Observable<DataQueryResponse> {
    const [{ dimension, filter }] = targets;
    if (!dimension) {
      return of({ data: [] });
    }
    return from(this.datasource.values(dimension, filter, range, scopedVars)).pipe(map((data) => ({ data })));
  }
}
