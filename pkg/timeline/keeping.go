package timeline

import (
	"context"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline/keep"
)

// kept is what the memory holds: the segments of days, and their usage.
type kept interface{ bytes() int }

// entry is what is kept of one UTC day. It is never changed, but for known by the holder of the day's turn.
type entry struct {
	day     *Day
	known   snapshots.Known
	written int  // its snapshots when it was last written to disk
	growing bool // it was read before it was finished, and is not shared yet
}

func (e *entry) bytes() int { return e.day.Bytes() }

// segmentVersion is that of the form that encode writes.
const segmentVersion = 7

func segmentOf(date int32) keep.Blob {
	return keep.Blob{Kind: "segment", Version: segmentVersion, Date: date}
}

// day returns the segment of a UTC day in a state of the source.
func (t *Timeline) day(ctx context.Context, state snapshots.State, date int32, work *tally) (*Day, error) {
	held, _, done, err := t.memory.Acquire(ctx, segmentOf(date))
	if err != nil {
		return nil, err
	}
	defer done()
	e, ok := held.(*entry)
	if ok {
		holds := e.known.State == state
		if !holds {
			if holds, err = state.Holds(ctx, date, e.known); err != nil {
				return nil, err
			}
		}
		if holds {
			e.known.State = state
			work.kept.Add(1)
			return e.day, t.shareGrown(ctx, state, e)
		}
	}
	if e, err = t.read(ctx, state, date, e, work); err != nil {
		t.memory.Forget(segmentOf(date))
		return nil, err
	}
	t.memory.Keep(segmentOf(date), e)
	return e.day, nil
}

// atHand is day that waits for nothing and looks at nothing but the memory; nil: the day has to be looked for.
func (t *Timeline) atHand(state snapshots.State, date int32, work *tally) *Day {
	held, ok, done := t.memory.Try(segmentOf(date))
	if !ok {
		return nil
	}
	defer done()
	e, ok := held.(*entry)
	if !ok || e.growing || e.known.State != state {
		return nil
	}
	work.kept.Add(1)
	return e.day
}

// worthWriting is how many new snapshots make it worth to write a day that still grows.
const worthWriting = 8

// slot waits until one of the days that are read at once may be.
func (t *Timeline) slot(ctx context.Context) (release func(), err error) {
	select {
	case t.slots <- struct{}{}:
		return func() { <-t.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read makes a day's entry: from disk, from the bucket, from the source, or from an earlier entry and what the source
// has had since. e is nil if there is none.
func (t *Timeline) read(ctx context.Context, state snapshots.State, date int32, e *entry, work *tally) (*entry, error) {
	if e == nil {
		e = &entry{}
		holds, err := t.fromDisk(ctx, state, date, e)
		if err != nil {
			return nil, err
		}
		if holds {
			work.onDisk.Add(1)
			return e, nil
		}
	}
	identity, err := t.identity(ctx, state, date)
	if err != nil {
		return nil, err
	}
	shared, err := t.fromBucket(ctx, state, date, identity, work)
	if shared != nil || err != nil {
		return shared, err
	}
	if e, err = t.fromSource(ctx, state, date, e, identity, work); err != nil {
		return nil, err
	}
	if identity != "" {
		return t.share(ctx, state, e, identity, work)
	}
	e.growing = !state.Finished(date)
	return e, nil
}

// fromSource reads a day's rows, or those that it has had since an earlier entry.
func (t *Timeline) fromSource(ctx context.Context, state snapshots.State, date int32, e *entry, identity string,
	work *tally) (*entry, error) {
	release, err := t.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r := reader{names: t.names, date: date, earlier: e.day}
	reading, err := state.Rows(ctx, date, e.known, false, &r)
	if err != nil {
		return nil, err
	}
	work.read.Add(1)
	work.rows.Add(reading.Rows)
	next := &entry{day: r.finish(reading.Oddities), known: snapshots.Known{Key: reading.Key, State: state},
		written: e.written}
	next.day.key, next.day.identity = reading.Key, identity
	n := len(next.day.Times)
	if t.disk != nil && n+int(reading.Rows) > 0 && (state.Finished(date) || n >= e.written+worthWriting) {
		t.disk.Write(segmentOf(date), about{reading.Key, identity}, encode(next.day, t.names))
		next.written = n
	}
	return next, nil
}

// fromDisk takes the day from the cache directory, if it can be used; holds reports whether it is all there is. Else
// the day may be one that grew.
func (t *Timeline) fromDisk(ctx context.Context, state snapshots.State, date int32, e *entry) (holds bool, err error) {
	if t.disk == nil {
		return false, nil
	}
	release, err := t.slot(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	var of about
	body, ok := t.disk.Read(segmentOf(date), &of)
	if !ok {
		return false, nil
	}
	if holds, err = state.Holds(ctx, date, snapshots.Known{Key: of.Key}); err != nil || !holds && of.Mark == "" {
		return false, err
	}
	err = body(func(segment []byte) error {
		d, err := decodeOf(date, segment, t.names)
		if err == nil {
			if holds {
				t.renew(state, segmentOf(date), &of, segment)
			}
			d.key, d.identity = of.Key, of.Identity
			e.day, e.written = d, len(d.Times)
		}
		return err
	})
	if err != nil {
		return false, nil // dropped, and read anew
	}
	e.known.Key = of.Key
	if holds {
		e.known.State = state
	}
	return holds, nil
}

// renew writes a finished day's blob again that has been compared with its rows, so that the next process need not.
func (t *Timeline) renew(state snapshots.State, b keep.Blob, of *about, body []byte) {
	if witness := state.Witness(b.Date); witness != "" && witness != of.Witness && state.Finished(b.Date) {
		of.Witness = witness
		t.disk.Write(b, *of, body)
	}
}
