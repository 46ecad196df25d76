package timeline

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

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

// Built is the result of Build for a day.
type Built struct {
	There bool // all of it was in the bucket
	Rows  int64
}

// Build puts the parts of a finished day into the bucket that it lacks; with list, it only looks for them. There must be
// a bucket. Errors: the day cannot be read; the bucket failed; ctx's.
func (t *Timeline) Build(ctx context.Context, date int32, list bool) (built Built, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		var stats loadStats
		identity, all, err := t.inBucket(ctx, state, date)
		if built = (Built{There: all}); all || list || err != nil {
			return err
		}
		segment := t.segmentOf(state, date, &stats)
		segment.identity = identity
		d, err := t.segments.build(ctx, segment)
		built.Rows = stats.Rows
		if err != nil {
			return err
		}
		usage := t.usageOf(state, d, &stats)
		usage.identity = identity
		_, err = t.usages.build(ctx, usage)
		return err
	})
	return built, err
}

// inBucket returns the identity of a finished day, and whether the bucket has all of it.
func (t *Timeline) inBucket(ctx context.Context, state snapshots.State, date int32) (identity string, all bool,
	err error) {
	release, err := t.cache.slot(ctx)
	if err != nil {
		return "", false, err
	}
	identity, err = state.Identity(ctx, date)
	release()
	if err == nil {
		all, err = t.segments.inBucket(ctx, date, identity)
	}
	if err == nil && all {
		all, err = t.usages.inBucket(ctx, date, identity)
	}
	return identity, all, err
}
