package timeline

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Work counts the work of making a view.
type Work struct {
	Kept   int64 // days that were in memory
	OnDisk int64 // days out of the cache directory
	Shared int64 // days out of the bucket that processes share
	Read   int64 // days read from the source, as a whole or their new rows
	Rows   int64 // rows read for them
}

// Load returns a view that holds every snapshot of the UTC days that [from, to] touches, and the data of the days
// around them that determine neighbors, cadence and gaps at the edges: the snapshot before from, and the one after to,
// if they are less than a day away.
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
		stats := &loadStats{}
		v, err = view(t.Names, state, stats, from, to, func(first, last int32) ([]*Day, error) {
			return t.days(ctx, state, first, last, stats)
		})
		return err
	})
	return v, err
}

// Retry calls do, and again if the snapshots change in the meantime.
func Retry(ctx context.Context, do func(context.Context) error) error {
	const tries = 10
	for range tries {
		if err := do(ctx); !errors.Is(err, snapshots.ErrStale) {
			return err
		}
	}
	return pool.SourceError("%v: ask again", snapshots.ErrStale)
}

// settled loads the state of the source and passes it to do, and retries if the source changed in the meantime.
func (t *Timeline) settled(ctx context.Context, do func(snapshots.State) error) error {
	return Retry(ctx, func(ctx context.Context) error {
		state, err := t.look(ctx)
		if err != nil {
			return err
		}
		return do(state)
	})
}

// look returns the current state of the source. Errors: none of it can be read.
func (t *Timeline) look(ctx context.Context) (snapshots.State, error) {
	state, err := t.cache.source.Look(ctx)
	if err == nil {
		err = state.Err()
	}
	return state, err
}

// longestSlice is how far a slice that holds the beginning of a window can begin ahead of it.
const longestSlice = pool.Hour

// Near returns the part of the view that Load returns for a shorter range of time, without loading anything again.
func (v *View) Near(from, to pool.Micros) (*View, error) {
	stats := &loadStats{Work: v.Work, bucket: v.stats.bucket, waiting: v.stats.waiting}
	return view(v.Names, v.state, stats, from, to, func(first, last int32) (days []*Day, err error) {
		for date := first; date <= last; date++ {
			if err := v.stats.days[date]; err != nil {
				stats.addDay(date, err)
			}
		}
		return slices.DeleteFunc(slices.Clone(v.loaded), func(d *Day) bool { return d.Date < first || d.Date > last }), nil
	})
}

// view makes a view of a range of time, of the days that load returns.
func view(names *Names, state snapshots.State, stats *loadStats, from, to pool.Micros,
	load func(first, last int32) ([]*Day, error)) (*View, error) {
	first, last := pool.DayOf(from-longestSlice), pool.DayOf(to)
	days, err := load(first, last)
	if err != nil {
		return nil, err
	}
	// The window's first slice may begin the day before; a day with few snapshots has the cadence of the one before.
	dayBefore := func() bool {
		known := len(days) > 0 && days[0].Date == first
		if first == pool.DayOf(from) && (!known || len(days[0].Times) == 0 || days[0].Times[0] >= from-longestSlice) {
			return true
		}
		return known && days[0].cadence == 0 && first > pool.DayOf(from)-2
	}
	for dayBefore() {
		first--
		before, err := load(first, first)
		if err != nil {
			return nil, err
		}
		days = append(before, days...)
	}
	// The window's last snapshot may end on the next day.
	if n := len(days); n == 0 || len(days[n-1].Times) == 0 || days[n-1].Times[len(days[n-1].Times)-1] <= to {
		after, err := load(last+1, last+1)
		if err != nil {
			return nil, err
		}
		days = append(days, after...)
	}
	window := pool.Window{From: from, To: to}
	if err := stats.nothingLeft(window, days); err != nil {
		return nil, err
	}
	// Say what is missing, and what the days have that is odd.
	notices := slices.Concat(state.Notices(), stats.segmentNotices())
	for _, d := range days {
		notices = append(notices, d.notices()...)
	}
	v := newView(names, days, notices)
	v.Work, v.state, v.stats, v.loaded = stats.Work, state, stats, days
	v.Notices = slices.Concat(v.Notices, v.oddNotices(window), v.incompleteNotices(window))
	return v, nil
}

// segmentOf requests the segment of a UTC day in a state of the source, without some snapshots.
func (t *Timeline) segmentOf(state snapshots.State, date int32, left []Incomplete, stats *loadStats) request[*Day] {
	return request[*Day]{
		state: state, date: date, left: left, stats: stats,
		decode: func(encoded []byte) (*Day, error) { return decode(date, encoded, t.Names) },
		derive: func(ctx context.Context, earlier *Day, from snapshots.Known) (*Day, snapshots.Reading, error) {
			var before *Usage
			if e := t.usages.inMemory(t.usages.blob(date, left)); e != nil && e.known.Content == from.Content {
				before = e.value
			}
			d, usage, reading, err := t.read(ctx, state, date, left, from, earlier, before)
			if err == nil && usage != nil && (len(left) > 0 || !d.thin) { // a thin day may be read without some
				t.usages.keep(ctx, t.usageOf(state, d, stats), usage, reading)
			}
			return d, reading, err
		},
	}
}

// read derives the segment and the usage of a day from its rows: from all of them, or from earlier ones and the rows
// since. The usage is nil if the earlier one is not known.
func (t *Timeline) read(ctx context.Context, state snapshots.State, date int32, left []Incomplete, from snapshots.Known,
	earlier *Day, before *Usage) (*Day, *Usage, snapshots.Reading, error) {
	if err := t.cache.slots.Acquire(ctx, 1); err != nil {
		return nil, nil, snapshots.Reading{}, err
	}
	defer t.cache.slots.Release(1)
	b := newBuilder(date, left, t.Names, earlier, before)
	reading, err := state.Rows(ctx, date, from, b)
	if err != nil {
		return nil, nil, reading, err
	}
	d, usage := b.finish(reading.Oddities)
	d.forgetMark(&reading)
	return d, usage, reading, nil
}

// days loads the given UTC days without incomplete snapshots. One that cannot be read is left out, with a warning.
func (t *Timeline) days(ctx context.Context, state snapshots.State, first, last int32, stats *loadStats) (days []*Day,
	err error) {
	days, err = t.whole(ctx, state, first, last, stats)
	group, inner := parallel.WithContext(ctx)
	for i, d := range days {
		group.Go(func() (err error) {
			days[i], err = t.counted(inner, state, d, stats)
			return err
		})
	}
	err = cmp.Or(err, group.Wait(), ctx.Err())
	return slices.DeleteFunc(days, func(d *Day) bool { return d == nil }), err
}

// whole loads the same days with all their snapshots.
func (t *Timeline) whole(ctx context.Context, state snapshots.State, first, last int32, stats *loadStats) ([]*Day,
	error) {
	dates := slices.DeleteFunc(slices.Clone(state.Dates()), func(date int32) bool { return date < first || date > last })
	entries, err := t.segments.all(ctx, len(dates), stats, func(i int) request[*Day] {
		return t.segmentOf(state, dates[i], nil, stats)
	})
	var days []*Day
	for _, e := range entries {
		if e != nil {
			days = append(days, e.value)
		}
	}
	return days, err
}

// Range returns the first and the newest snapshot of the source, of the days that can be read; ok: there is one.
func (t *Timeline) Range(ctx context.Context) (first, newest pool.Micros, ok bool, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		earliest, err := t.firstOf(ctx, state, slices.All(state.Dates()))
		if ok = earliest != nil; !ok || err != nil {
			return err
		}
		first = earliest.Times[0]
		latest, err := t.firstOf(ctx, state, slices.Backward(state.Dates()))
		if latest != nil {
			newest = latest.Times[len(latest.Times)-1]
		}
		return err
	})
	return first, newest, ok, err
}

// firstOf returns the first of the dates with a snapshot, nil if there is none.
func (t *Timeline) firstOf(ctx context.Context, state snapshots.State, dates iter.Seq2[int, int32]) (*Day, error) {
	for _, date := range dates { // not each of them has a snapshot
		e, err := t.segments.get(ctx, t.segmentOf(state, date, nil, new(loadStats)))
		switch {
		case ctx.Err() != nil, errors.Is(err, snapshots.ErrStale):
			return nil, cmp.Or(ctx.Err(), err)
		case err == nil && len(e.value.Times) > 0:
			return e.value, nil
		}
	}
	return nil, nil
}

// Warm loads all days, newest first, until the memory's budget is used up or ctx ends. It gives way to queries: between
// two days it waits until no load is under way. Days that cannot be read are left to the queries that ask for them.
func (t *Timeline) Warm(ctx context.Context) error {
	const patience = 20 * time.Millisecond
	state, err := t.look(ctx)
	if err != nil {
		return err
	}
	largest := int64(0) // bytes of a day
	for _, date := range slices.Backward(state.Dates()) {
		for t.busy.Load() > 0 {
			if err := parallel.Wait(ctx, patience); err != nil {
				return err
			}
		}
		if state, err = t.look(ctx); err != nil {
			return err
		}
		if e, err := t.segments.get(ctx, t.segmentOf(state, date, nil, new(loadStats))); err == nil {
			largest = max(largest, int64(e.Bytes()))
		}
		if used, budget := t.Memory(); ctx.Err() != nil || used+largest > budget {
			return ctx.Err()
		}
	}
	return nil
}

// FinishedDays returns the UTC days that touch [from, to] and to which no collector will append anymore, ascending.
func (t *Timeline) FinishedDays(ctx context.Context, from, to pool.Micros) (dates []int32, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		dates = slices.DeleteFunc(slices.Clone(state.Dates()), func(date int32) bool {
			return date < pool.DayOf(from) || date > pool.DayOf(to) || !state.Finished(date)
		})
		return nil
	})
	return dates, err
}

// Build puts the parts of a finished day into the bucket, which there must be; with list, it only looks for them.
// there: it had all of them; rows: that were read. Errors: the day cannot be read; the bucket failed; ctx's.
func (t *Timeline) Build(ctx context.Context, date int32, list bool) (there bool, rows int64, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		var stats loadStats
		defer func() { rows = stats.Rows }()
		there = false
		// Find out what the bucket has of the day.
		key, err := t.cache.key(ctx, state, date)
		if err != nil {
			return err
		}
		identity := state.Identity(key)
		segment, all, err := t.shared(ctx, identity, date, nil)
		if there = all; there || err != nil || list && !segment {
			return err
		}
		// Build the segment, and that without incomplete snapshots if there are any.
		d, err := t.segments.build(ctx, t.segmentOf(state, date, nil, &stats))
		if err != nil {
			return err
		}
		left, err := t.incomplete(ctx, state, d, &stats)
		if len(left) > 0 {
			_, there, err = t.shared(ctx, identity, date, left)
			if !there && !list && err == nil {
				d, err = t.segments.build(ctx, t.segmentOf(state, date, left, &stats))
			}
		}
		if there || list || err != nil {
			return err
		}
		_, err = t.usages.build(ctx, t.usageOf(state, d, &stats))
		return err
	})
	return there, rows, err
}

// shared reports whether the bucket has the segment of a day without some snapshots, and whether its usage, too.
func (t *Timeline) shared(ctx context.Context, identity string, date int32, left []Incomplete) (segment, all bool,
	err error) {
	segment, err = t.Shared.Has(ctx, t.segments.blob(date, left), identity)
	if segment && err == nil {
		all, err = t.Shared.Has(ctx, t.usages.blob(date, left), identity)
	}
	return segment, all, err
}
