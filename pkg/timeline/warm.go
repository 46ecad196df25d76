package timeline

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Warm loads all days, newest first, until the memory's budget is used up or ctx ends. It gives way to queries: between
// two days it waits until no load is under way. Days that cannot be read are left to the queries that ask for them.
func (t *Timeline) Warm(ctx context.Context) error {
	files, _, err := t.files(ctx)
	if err != nil {
		return err
	}
	for _, date := range slices.Backward(t.dates(files)) {
		if t.cache.full() {
			return nil
		}
		if err := t.idle(ctx); err != nil {
			return err
		}
		if files, _, err = t.files(ctx); err != nil {
			return err
		}
		if _, err := t.day(ctx, date, files, new(tally)); ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
	}
	return nil
}

// idle waits until no query loads.
func (t *Timeline) idle(ctx context.Context) error {
	const patience = 20 * time.Millisecond
	for t.busy.Load() > 0 {
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// Memory returns the bytes of the segments that are held, and the budget.
func (t *Timeline) Memory() (used, budget int64) { return t.cache.used() }
