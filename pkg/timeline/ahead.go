package timeline

import (
	"context"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

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
		key, err := t.cache.key(ctx, state, date)
		if err != nil {
			return err
		}
		identity := state.Identity(key)
		segment, all, err := t.shared(ctx, identity, date, nil)
		if there = all; there || err != nil || list && !segment {
			return err
		}
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
	segment, err = t.cache.shared.Has(ctx, t.segments.blob(date, left), identity)
	if segment && err == nil {
		all, err = t.cache.shared.Has(ctx, t.usages.blob(date, left), identity)
	}
	return segment, all, err
}
