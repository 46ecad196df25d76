package timeline

import (
	"context"
	"maps"
)

// day returns the segment of a UTC day as the files are now.
func (t *Timeline) day(ctx context.Context, date int32, files []file) (*Day, error) {
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
		return e.day, nil
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := t.read(ctx, e, date, files); err != nil {
		e.day, e.in = nil, nil
		return nil, err
	}
	e.versions = versions
	return e.day, nil
}

// untouched tells whether the files have changed without any change to the day: all its sources are closed, and no other
// file has come to reach into it.
func (t *Timeline) untouched(e *entry, files []file) bool {
	from, to := texts(e.day.Date, t.zone)
	n := 0
	for _, f := range files {
		if !f.touches(from, to) {
			continue
		}
		if n >= len(e.sources) || !e.sources[n].is(f) || !e.sources[n].closed {
			return false
		}
		n++
	}
	return n == len(e.sources)
}

func (t *Timeline) read(ctx context.Context, e *entry, date int32, files []file) error {
	grown := false
	if e.in != nil {
		var err error
		if grown, err = e.in.grow(ctx, files); err != nil {
			return err
		}
	}
	if !grown {
		e.in = newIngest(date, t.zone, t.names)
		if err := e.in.read(ctx, files); err != nil {
			return err
		}
	}
	e.day, e.sources = e.in.day(), e.in.sources
	if e.in.closed() {
		e.in = nil // finished: its rows are not needed any more
	}
	return nil
}

// bytes estimates the live memory of what is kept of the rows.
func (in *ingest) bytes() int64 {
	n := int64(len(in.table.bytes)) + 120*int64(len(in.table.parsed))
	for _, b := range in.blocks {
		n += 4 * int64(cap(b.rows))
	}
	return n
}
