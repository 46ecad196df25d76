package publish

import (
	"context"

	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/pool"
)

// Computed are the facts of the hours in [From, To).
type Computed struct {
	From, To pool.Micros
	Facts    []*facts.Fact
}

// Put publishes facts that are there already, of full hours of finished days, in their order: as Run does, but for
// computing them. The checkpoint says of what they are; how far they reach is added to it. The option Since is not
// used.
func Put(ctx context.Context, o Options, point facts.Checkpoint, all []Computed, done func(Part)) error {
	w := &writer{Options: o}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	for _, c := range all {
		starts := []pool.Micros{c.From}
		for starts[len(starts)-1] < c.To {
			starts = append(starts, starts[len(starts)-1]+pool.Hour)
		}
		part, err := w.publish(ctx, &point, starts, c.Facts, c.To)
		if err != nil {
			return err
		}
		done(part)
	}
	return nil
}
