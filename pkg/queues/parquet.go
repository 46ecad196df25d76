package queues

import (
	"context"
	"errors"
	"os"

	"github.com/chtc/gpureports/pkg/pool"
)

// loadParquet returns the current rows of a Parquet file. Each poll replaces the file.
func (f *file) loadParquet(ctx context.Context) (rows *contents, err error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	defer func() {
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			err = pool.SourceError("%s cannot be read: %w", f.name, err)
		}
	}()
	in, err := f.store.options.Root.Open(f.name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	rows = f.kept.Load()
	if v := f.version; rows == nil || v == nil || !os.SameFile(v, info) || v.Size() != info.Size() ||
		!v.ModTime().Equal(info.ModTime()) {
		f.kept.Store(nil)
		b := f.store.builder()
		if err := f.store.options.Parquet(ctx, in, info.Size(), columns, checkColumns, b.add); err != nil {
			return nil, err
		}
		rows = b.finish()
		f.kept.Store(rows)
		f.version = info
	}
	return rows, nil
}
