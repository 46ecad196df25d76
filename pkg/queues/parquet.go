package queues

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// loadParquet returns the current days of a Parquet file. Each poll replaces the file.
func (f *file) loadParquet(ctx context.Context) ([]*Day, []timeline.Notice, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	in, err := f.store.options.Root.Open(f.name)
	if err != nil {
		return nil, nil, f.unreadable(err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, nil, f.unreadable(err)
	}
	days, odd := f.known()
	if v := f.version; days == nil || v == nil || !os.SameFile(v, info) || v.Size() != info.Size() ||
		!v.ModTime().Equal(info.ModTime()) {
		f.forget()
		b := builder{days: map[int32]*Day{}}
		if err := f.readParquet(ctx, in, info.Size(), &b); err != nil {
			return nil, nil, f.unreadable(err)
		}
		days, odd = b.finish(), b.odd
		f.keep(days, odd)
		f.version = info
	}
	return days, f.notices(odd, ""), nil
}

func (f *file) unreadable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return pool.SourceError("%s cannot be read: %w", f.name, err)
}

// readParquet reads all rows.
func (f *file) readParquet(ctx context.Context, in io.ReaderAt, size int64, b *builder) error {
	p, row := newParser(f.store), make([][]byte, len(columns))
	return f.store.options.Parquet(ctx, in, size, columns, checkColumns, func(texts []string) {
		for i, text := range texts {
			row[i] = append(row[i][:0], text...)
		}
		b.read(p, row)
	})
}
