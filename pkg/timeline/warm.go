package timeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Warm loads all days, newest first, until the memory's budget is used up or ctx ends. It gives way to queries: between
// two days it waits until no load is under way. Days that cannot be read are left to the queries that ask for them.
func (t *Timeline) Warm(ctx context.Context) error {
	state, err := t.look(ctx)
	if err != nil {
		return err
	}
	for _, date := range slices.Backward(state.Dates()) {
		if t.cache.full() {
			return nil
		}
		if err := t.idle(ctx); err != nil {
			return err
		}
		if state, err = t.look(ctx); err != nil {
			return err
		}
		if _, err := t.day(ctx, state, date, new(loadStats)); ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
	}
	return nil
}

// idle waits until no query loads.
func (t *Timeline) idle(ctx context.Context) error {
	const patience = 20 * time.Millisecond
	for t.busy.Load() > 0 {
		if err := parallel.Wait(ctx, patience); err != nil {
			return err
		}
	}
	return ctx.Err()
}
