package timeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/fresh"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Work is what it took to make a view.
type Work struct {
	Kept   int64 // days that were in memory
	OnDisk int64 // days out of the cache directory
	Shared int64 // days out of the bucket that processes share
	Read   int64 // days read from the source, as a whole or their new rows
	Rows   int64 // rows read for them
}

// tally counts work that is done side by side.
type tally struct {
	kept, onDisk, shared, read, rows atomic.Int64
	failures                         failures
	unshared                         remarks
}

func (t *tally) total() Work {
	return Work{t.kept.Load(), t.onDisk.Load(), t.shared.Load(), t.read.Load(), t.rows.Load()}
}

// Load returns a view that holds every snapshot of the UTC days that [from, to] touches, and what is needed of the days
// around them so that neighbours, cadence and gaps at the edges are known: the snapshot before from, and the one after
// to, if they are less than a day away.
//
// A part of the source or a day that cannot be read becomes a notice of the view, and the rest answers. Errors: nothing
// of the source can be read, or none of the window's days.
func (t *Timeline) Load(ctx context.Context, from, to pool.Micros) (*View, error) {
	ctx, span := otel.Tracer("gpureports").Start(ctx, "gpureports load")
	defer span.End()
	t.busy.Add(1)
	defer t.busy.Add(-1)
	var v *View
	err := t.settled(ctx, func(state snapshots.State) (err error) {
		v, err = t.load(ctx, state, from, to)
		return err
	})
	return v, err
}

// settled looks at the source and calls do with its state, again while the source changes under it.
func (t *Timeline) settled(ctx context.Context, do func(snapshots.State) error) error {
	const patience = 10
	for i := 1; ; i++ {
		state, err := t.look(ctx)
		if err == nil {
			err = do(state)
		}
		if !errors.Is(err, snapshots.ErrStale) || i == patience {
			return err
		}
		ctx = fresh.Asked(ctx, time.Now())
	}
}

// look returns the source as it is now, or as it was at a moment since the question was asked.
func (t *Timeline) look(ctx context.Context) (snapshots.State, error) {
	return t.seen.Look(ctx, func() (snapshots.State, error) { return t.lookNow(ctx) })
}

// lookNow looks at the source, and drops from disk what has been edited since the last look.
func (t *Timeline) lookNow(ctx context.Context) (snapshots.State, error) {
	state, err := t.source.Look(ctx)
	if err != nil {
		return nil, err
	}
	if err := state.Err(); err != nil {
		return nil, err
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.disk != nil && t.last != nil && t.last != state {
		for _, date := range state.Edited(t.last) {
			t.disk.Drop(segmentOf(date))
			t.disk.Drop(usageOf(date))
		}
	}
	t.last = state
	return state, nil
}

// longestSlice is how far a slice that holds the beginning of a window can begin ahead of it.
const longestSlice = pool.Hour

func (t *Timeline) load(ctx context.Context, state snapshots.State, from, to pool.Micros) (*View, error) {
	first, last := pool.DayOf(from-longestSlice), pool.DayOf(to)
	var work tally
	days, err := t.days(ctx, state, first, last, &work)
	if err != nil {
		return nil, err
	}
	dayBefore := func() error {
		first--
		before, err := t.days(ctx, state, first, first, &work)
		days = append(before, days...)
		return err
	}
	if first == pool.DayOf(from) && (len(days) == 0 || days[0].Date > first || !days[0].reaches(from-longestSlice)) {
		if err := dayBefore(); err != nil {
			return nil, err
		}
	}
	// the cadence of a day with few snapshots is that of the day before it
	for len(days) > 0 && days[0].Date == first && days[0].cadence == 0 && first > pool.DayOf(from)-2 {
		if err := dayBefore(); err != nil {
			return nil, err
		}
	}
	if n := len(days); n == 0 || len(days[n-1].Times) == 0 || days[n-1].Times[len(days[n-1].Times)-1] <= to {
		after, err := t.days(ctx, state, last+1, last+1, &work)
		if err != nil {
			return nil, err
		}
		days = append(days, after...)
	}
	if err := work.failures.all(pool.Window{From: from, To: to}, days); err != nil {
		return nil, err
	}
	notices := slices.Concat(state.Notices(), work.failures.notices(), work.unshared.notices())
	for _, d := range days {
		notices = append(notices, d.notices()...)
	}
	v := newView(t.names, days, notices)
	v.Work, v.state = work.total(), state
	return v, nil
}

// reaches reports whether the day has a snapshot before t.
func (d *Day) reaches(t pool.Micros) bool { return len(d.Times) > 0 && d.Times[0] < t }

// days loads those of the given UTC days that may have a snapshot, in parallel where they are not at hand. The newest
// goes first: as a rule it alone has to be read from the source. A day that cannot be read is left out, and one of the
// work's failures.
func (t *Timeline) days(ctx context.Context, state snapshots.State, first, last int32, work *tally) ([]*Day, error) {
	dates := slices.DeleteFunc(slices.Clone(state.Dates()), func(date int32) bool { return date < first || date > last })
	days := make([]*Day, len(dates))
	group, inner := parallel.WithContext(ctx)
	group.SetLimit(t.atOnce())
	for i, date := range slices.Backward(dates) {
		if inner.Err() != nil {
			break
		}
		if days[i] = t.atHand(state, date, work); days[i] != nil {
			continue
		}
		group.Go(func() (err error) {
			days[i], err = t.day(inner, state, date, work)
			if err != nil && inner.Err() == nil && !errors.Is(err, snapshots.ErrStale) {
				work.failures.add(date, err)
				return nil
			}
			return err
		})
	}
	if err := cmp.Or(group.Wait(), ctx.Err()); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(days, func(d *Day) bool { return d == nil }), nil
}

// Range returns the first and the newest snapshot of the source; ok is false when there is none. Days that cannot be
// read are left out.
func (t *Timeline) Range(ctx context.Context) (first, newest pool.Micros, ok bool, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		dates := state.Dates() // not each of them has a snapshot
		var work tally
		ok = false
		find := func(date int32, take func(d *Day)) (bool, error) {
			d, err := t.day(ctx, state, date, &work)
			if ctx.Err() != nil || errors.Is(err, snapshots.ErrStale) {
				return false, cmp.Or(ctx.Err(), err)
			}
			if err != nil || len(d.Times) == 0 {
				return false, nil
			}
			take(d)
			return true, nil
		}
		for _, date := range dates {
			found, err := find(date, func(d *Day) { first, ok = d.Times[0], true })
			if err != nil {
				return err
			}
			if found {
				break
			}
		}
		for _, date := range slices.Backward(dates) {
			found, err := find(date, func(d *Day) { newest = d.Times[len(d.Times)-1] })
			if found || err != nil {
				return err
			}
		}
		return nil
	})
	return first, newest, ok, err
}
