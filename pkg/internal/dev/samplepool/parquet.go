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

// parquetFile is one Parquet file that grows by snapshots.
type parquetFile struct {
	newer  bool
	file   *os.File
	writer *parquet.Writer
	order  []int // the position of each column of Row.appendValues
	values []any
	row    []any
}

// WriteDays writes the snapshots into dir as a collector has them in a bucket: date=YYYY-MM-DD/snapshots.parquet for
// each of its local days. A file that exists is an error.
func (p *Pool) WriteDays(ctx context.Context, dir string) error {
	date := func(shot Snapshot) string { return shot.Timestamp[:len(time.DateOnly)] }
	return p.writeFiles(ctx, date, func(date string, newer bool) (snapshotFile, error) {
		folder := filepath.Join(dir, "date="+date)
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return nil, fmt.Errorf("writing a sample pool's %s: %w", date, err)
		}
		return asFile(newParquetFile(folder, "snapshots.parquet", newer))
	})
}

// newParquetFile creates a file in the reference collector's order of columns.
func newParquetFile(dir, name string, newer bool) (*parquetFile, error) {
	// #nosec G302 -- Grafana's user reads it
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("writing a sample pool: %s exists already", name)
	}
	if err != nil {
		return nil, fmt.Errorf("writing a sample pool's %s: %w", name, err)
	}
	fields := slices.DeleteFunc(slices.Clone(parquet.Schema), func(f parquet.Field) bool {
		return !slices.Contains(columnNames(newer), f.Name)
	})
	f := &parquetFile{newer: newer, file: file, writer: parquet.NewWriter(file, fields), row: make([]any, len(fields))}
	for _, name := range columnNames(newer) {
		f.order = append(f.order, slices.IndexFunc(fields, func(f parquet.Field) bool { return f.Name == name }))
	}
	return f, nil
}

func (f *parquetFile) add(ctx context.Context, shot Snapshot) error {
	for i := range shot.Rows {
		f.values = shot.Rows[i].appendValues(f.values[:0], shot.Timestamp, f.newer)
		for n, at := range f.order {
			f.row[at] = f.values[n]
		}
		if err := f.writer.Write(f.row); err != nil {
			return fmt.Errorf("writing a sample pool's snapshot of %s: %w", shot.Timestamp, err)
		}
	}
	return ctx.Err()
}

func (f *parquetFile) close() error { return errors.Join(f.writer.Close(), f.file.Close()) }
