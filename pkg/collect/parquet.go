package collect

import (
	"context"
	"iter"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// inFields returns rows as Parquet files take them, with a value for each field.
func inFields(fields []parquet.Field, rows iter.Seq[row]) (all [][]any) {
	columns := make([]string, len(fields))
	for i, f := range fields {
		columns[i] = f.Name
	}
	for r := range rows {
		all = append(all, r.in(columns))
	}
	return all
}

// addParquet appends the snapshot to a month file, which is replaced as a whole.
func addParquet(ctx context.Context, path string, s snapshot) (n int, afterwards, err error) {
	rows := inFields(parquet.Schema, s.rows)
	return len(rows), nil, parquet.Append(ctx, path, parquet.Schema, rows)
}
