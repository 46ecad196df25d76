package collect

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// schemaOrder is the index among a row's values (slotAd.rows) for each column of a Parquet file.
var schemaOrder = func() []int {
	order := make([]int, len(parquet.Schema))
	for i, f := range parquet.Schema {
		order[i] = slices.IndexFunc(columns, func(c column) bool { return c.name == f.Name })
	}
	return order
}()

// addParquet appends the snapshot to a month file, which is replaced as a whole.
func addParquet(ctx context.Context, path string, s snapshot) (n int, afterwards, err error) {
	rows := s.schemaRows()
	return len(rows), nil, parquet.Append(ctx, path, parquet.Schema, rows)
}

// schemaRows are the rows of the snapshot with a value for each field of parquet.Schema.
func (s snapshot) schemaRows() (rows [][]any) {
	for values := range s.rows {
		row := make([]any, len(schemaOrder))
		for k, n := range schemaOrder {
			row[k] = values[n]
		}
		rows = append(rows, row)
	}
	return rows
}
