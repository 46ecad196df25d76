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
type tally struct {
	kept, onDisk, read, rows atomic.Int64
	failures                 failures
}

func (t *tally) total() Work {
	return Work{t.kept.Load(), t.onDisk.Load(), t.read.Load(), t.rows.Load()}
}

// day returns the segment of a UTC day as the files are now.
func (t *Timeline) day(ctx context.Context, date int32, files []file, work *tally) (*Day, error) {
	e, done, err := t.cache.acquire(ctx, date)
	if err != nil {
		return nil, err
	}
	defer done()
	versions := map[string]uint64{}
	for _, f := range files {
		versions[f.Name] = f.state.Version
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
	next := *e
	if err := t.read(ctx, &next, date, files, work); err != nil {
		t.cache.keep(date, &entry{})
		return nil, err
	}
	next.versions = versions
	t.cache.keep(date, &next)
	return next.day, nil
}

// untouched tells whether the files have changed without any change to the day: all its sources are complete, and no other
// file has come to reach into it.
func (t *Timeline) untouched(e *entry, files []file) bool {
	from, to := texts(e.day.Date, t.zone)
	return slices.EqualFunc(e.sources, touching(files, from, to), func(s source, f file) bool { return s.complete(f, from, to) })
}

// worthKeeping is how many new snapshots make it worth to write a day that still grows.
const worthKeeping = 8

func (t *Timeline) read(ctx context.Context, e *entry, date int32, files []file, work *tally) (err error) {
	if e.day == nil && t.fromDisk(ctx, e, date, files) && t.untouched(e, files) {
		work.onDisk.Add(1)
		return nil
	}
	var in *ingest
	if e.day != nil {
		if in, err = t.goOn(ctx, e, files); err != nil {
			return err
		}
	}
	if in == nil {
		in = newIngest(date, t.zone, t.names)
		if err := in.read(ctx, files); err != nil {
			return err
		}
	}
	work.read.Add(1)
	work.rows.Add(in.rows)
	e.day, e.tail = in.day()
	e.sources = in.sources
	if n, finished := len(e.day.Times), in.finished(files); t.disk != nil && (finished || n >= e.written+worthKeeping) {
		if err := fingerprint(ctx, e.sources, files); err != nil {
			return err
		}
		t.disk.write(e.day, e.sources, e.tail, finished, t.names)
		e.written = n
	}
	return nil
}

// fromDisk takes the day from the cache directory, if what it was made from is still there. More rows may have come since.
func (t *Timeline) fromDisk(ctx context.Context, e *entry, date int32, files []file) bool {
	if t.disk == nil {
		return false
	}
	header, segment, ok := t.disk.read(date, t.names)
	if !ok {
		return false
	}
	from, to := texts(date, t.zone)
	var sources []source
	files = touching(files, from, to)
	if len(files) != len(header.Sources) {
		return false
	}
	for i, k := range header.Sources {
		f := files[i]
		if k.File != f.Name || k.Inode != f.state.Inode || k.Columns != f.state.Columns || f.state.First > k.First || f.state.Last < k.Last {
			return false
		}
		if f.state.Unordered && f.state.Find(from, to) != (snapshots.Rowids{First: k.First, Last: k.Last}) {
			return false
		}
		if hashes, err := f.Hash(ctx, f.state, k.Rows); err != nil || !slices.Equal(hashes, k.Hashes) {
			return false
		}
		sources = append(sources, source{file: k.File, inode: k.Inode, columns: k.Columns, edits: f.state.Rewritten, rows: snapshots.Rowids{First: k.First, Last: k.Last}, closed: k.Closed})
	}
	d, err := segment()
	if err != nil {
		return false // dropped, and read anew
	}
	e.day, e.sources, e.tail, e.written = d, sources, header.Tail, len(d.Times)
	return true
}
