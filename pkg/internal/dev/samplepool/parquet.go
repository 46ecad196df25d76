package samplepool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// WriteDays writes the snapshots into dir as a collector has them in a bucket: date=YYYY-MM-DD/snapshots.parquet for
// each of its local days. A file that exists is an error.
func (p *Pool) WriteDays(ctx context.Context, dir string) error {
	date := func(shot Snapshot) string { return shot.Timestamp[:len(time.DateOnly)] }
	return p.writeFiles(ctx, date, func(date string, newer bool) (*rowFile, error) {
		folder := filepath.Join(dir, "date="+date)
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, fmt.Errorf("writing a sample pool's %s: %w", date, err)
		}
		return newParquetFile(folder, "snapshots.parquet", newer)
	})
}

// newParquetFile creates a file in the reference collector's order of columns.
func newParquetFile(dir, name string, newer bool) (*rowFile, error) {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("writing a sample pool: %s exists already", name)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool's %s: %w", name, err)
	}
	f := &rowFile{}
	var fields []parquet.Field
	for _, field := range parquet.Schema {
		at := slices.IndexFunc(columns, func(c column) bool { return c.name() == field.Name })
		if at >= 0 && (newer || !columns[at].newer) {
			f.columns, fields = append(f.columns, columns[at]), append(fields, field)
		}
	}
	writer := parquet.NewWriter(file, fields)
	f.insert = func(_ context.Context, values ...any) error { return writer.Write(values) }
	f.close = func() error { return errors.Join(writer.Close(), file.Close()) }
	return f, nil
}
