package samplepool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// newParquetFile makes a month's file, with columns in the reference collector's order.
func newParquetFile(path string, known []column) (*monthFile, error) {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool: %w", err)
	}
	f := &monthFile{}
	var fields []parquet.Field
	for _, field := range parquet.Schema {
		if at := slices.IndexFunc(known, func(c column) bool { return c.name() == field.Name }); at >= 0 {
			f.columns, fields = append(f.columns, known[at]), append(fields, field)
		}
	}
	writer := parquet.NewWriter(file, fields)
	f.insert = func(_ context.Context, values ...any) error { return writer.Write(values) }
	f.close = func() error { return errors.Join(writer.Close(), file.Close()) }
	return f, nil
}
