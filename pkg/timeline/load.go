package timeline

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// Work tells what a view took to make.
type Work struct {
	Kept   int64 // days that were in memory
	OnDisk int64 // days out of the cache directory
	Read   int64 // days read from month files, as a whole or their new rows
	Rows   int64 // rows read for them
}

// tally counts work that is done side by side.
type tally struct{ kept, onDisk, read, rows atomic.Int64 }

func (t *tally) total() Work {
	return Work{t.kept.Load(), t.onDisk.Load(), t.read.Load(), t.rows.Load()}
}

// day returns the segment of a UTC day as the files are now.
func (t *Timeline) day(ctx context.Context, date int32, files []file, work *tally) (*Day, error) {
	e, err := t.cache.acquire(ctx, date)
	if err != nil {
		return nil, err
	}
	defer t.cache.release(e)
	versions := map[string]uint64{}
	for _, f := range files {
		versions[f.Name] = f.state.Version<<16 ^ f.state.Inode
	}
	if e.day != nil && (maps.Equal(e.versions, versions) || t.untouched(e, files)) {
		e.versions = versions
		work.kept.Add(1)
		return e.day, nil
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := t.read(ctx, e, date, files, work); err != nil {
		e.day, e.in = nil, nil
		return nil, err
	}
	e.versions = versions
	return e.day, nil
}

// untouched tells whether the files have changed without any change to the day: all its sources are complete, and no other
// file has come to reach into it.
func (t *Timeline) untouched(e *entry, files []file) bool {
	from, to := texts(e.day.Date, t.zone)
	n := 0
	for _, f := range files {
		if !f.touches(from, to) {
			continue
		}
		if n >= len(e.sources) || !e.sources[n].complete(f, from, to) {
			return false
		}
		n++
	}
	return n == len(e.sources)
}

func (t *Timeline) read(ctx context.Context, e *entry, date int32, files []file, work *tally) error {
	grown, before := false, int64(0)
	if e.in != nil {
		before = e.in.rows()
		var err error
		if grown, err = e.in.grow(ctx, files); err != nil {
			return err
		}
	}
	if !grown && t.fromDisk(ctx, e, date, files) {
		work.onDisk.Add(1)
		return nil
	}
	if !grown {
		before = 0
		e.in = newIngest(date, t.zone, t.names)
		if err := e.in.read(ctx, files); err != nil {
			return err
		}
	}
	work.read.Add(1)
	work.rows.Add(e.in.rows() - before)
	e.day, e.sources = e.in.day(), e.in.sources
	if e.in.finished(files) { // its rows are not needed any more
		if t.disk != nil {
			if err := fingerprint(ctx, e.sources, files); err != nil {
				return err
			}
			t.disk.write(e.day, e.sources, t.names)
		}
		e.in = nil
	}
	return nil
}

// fromDisk takes the day from the cache directory, if what it was made from is still there.
func (t *Timeline) fromDisk(ctx context.Context, e *entry, date int32, files []file) bool {
	if t.disk == nil {
		return false
	}
	keys, segment, ok := t.disk.read(date, t.names)
	if !ok {
		return false
	}
	from, to := texts(date, t.zone)
	var sources []source
	for _, f := range files {
		if !f.touches(from, to) {
			continue
		}
		if len(sources) == len(keys) {
			return false
		}
		k := keys[len(sources)]
		if k.File != f.Name || k.Inode != f.state.Inode || k.Columns != f.state.Columns || f.state.First > k.First || f.state.Last < k.Last {
			return false
		}
		if f.state.Unordered && f.state.Find(from, to) != (snapshots.Rowids{First: k.First, Last: k.Last}) {
			return false
		}
		if hashes, err := f.Hash(ctx, f.state, k.Rows); err != nil || !slices.Equal(hashes, k.Hashes) {
			return false
		}
		sources = append(sources, source{file: k.File, inode: k.Inode, columns: k.Columns, edits: f.state.Rewritten, rows: snapshots.Rowids{First: k.First, Last: k.Last}, closed: k.Last < f.state.Last})
	}
	if len(sources) != len(keys) {
		return false
	}
	d, err := segment()
	if err != nil {
		return false // dropped, and read anew
	}
	e.day, e.sources, e.in = d, sources, nil
	return true
}

// rows is the number of rows that were read.
func (in *ingest) rows() (n int64) {
	for _, s := range in.sources {
		n += s.rows.Last - s.rows.First + 1
	}
	return n
}

// bytes estimates the live memory of what is kept of the rows.
func (in *ingest) bytes() int64 {
	n := int64(len(in.table.bytes)) + 120*int64(len(in.table.parsed))
	for _, b := range in.blocks {
		n += 4 * int64(cap(b.rows))
	}
	return n
}
