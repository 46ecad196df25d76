package timeline

import (
	"context"
	"errors"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// errNotShared says that there is no bucket to build for.
var errNotShared = errors.New("nothing is shared without a bucket")

// FinishedDays returns the UTC days that touch [from, to] and to which no collector will append any more, ascending.
func (t *Timeline) FinishedDays(ctx context.Context, from, to pool.Micros) (dates []int32, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		dates = slices.DeleteFunc(slices.Clone(state.Dates()), func(date int32) bool {
			return date < pool.DayOf(from) || date > pool.DayOf(to) || !state.Finished(date)
		})
		return nil
	})
	return dates, err
}

// Built is what Build did for a day.
type Built struct {
	There bool // all of it was in the bucket
	Rows  int64
}

// Missing reports whether the bucket lacks something of a finished day. Errors: the day cannot be read; the bucket
// failed; ctx's.
func (t *Timeline) Missing(ctx context.Context, date int32) (missing bool, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		_, segment, usage, err := t.there(ctx, state, date)
		missing = !segment || !usage
		return err
	})
	return missing, err
}

// there returns the identity of a finished day, and which of its parts the bucket has.
func (t *Timeline) there(ctx context.Context, state snapshots.State, date int32) (identity string, segment,
	usage bool, err error) {
	if t.shared == nil {
		return "", false, false, errNotShared
	}
	release, err := t.slot(ctx)
	if err != nil {
		return "", false, false, err
	}
	identity, err = state.Identity(ctx, date)
	release()
	if err == nil {
		segment, err = t.shared.Has(ctx, segmentOf(date), identity)
	}
	if err == nil {
		usage, err = t.shared.Has(ctx, usageOf(date), identity)
	}
	return identity, segment, usage, err
}

// Build puts into the bucket what it lacks of a finished day, made of the source alone. Errors: the day cannot be read;
// the bucket failed; ctx's.
func (t *Timeline) Build(ctx context.Context, date int32) (built Built, err error) {
	err = t.settled(ctx, func(state snapshots.State) error {
		identity, segment, used, err := t.there(ctx, state, date)
		if built = (Built{There: segment && used}); built.There || err != nil {
			return err
		}
		var work tally
		e, err := t.fromSource(ctx, state, date, &entry{}, identity, &work)
		if err != nil {
			return err
		}
		built.Rows = work.rows.Load()
		if !segment {
			_, err = t.put(ctx, e.known, segmentOf(date), identity, func() []byte { return encode(e.day, t.names) })
		}
		if err != nil || used {
			return err
		}
		var of *usageEntry
		if of, err = t.readUsage(ctx, state, e.day, nil); err != nil {
			return err
		}
		_, err = t.put(ctx, of.known, usageOf(date), identity, of.block.Encode)
		return err
	})
	return built, err
}
