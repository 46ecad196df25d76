package demand

import (
	"context"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/survival"
)

// WaitsOf makes the waits of a plan's window, one by one, and the polls that they rest on: to compare them with the
// truth. Errors come from [Answer].
func WaitsOf(ctx context.Context, s *stores.Stores, p *query.Plan) ([]Wait, *Polls, error) {
	rows, err := s.Queues.Load(ctx, p.Window)
	if err != nil {
		return nil, nil, err
	}
	polls := NewPolls(rows.Days)
	all, err := allWaits(ctx, s, p, rows, polls, frames.Plain(p))
	if err != nil {
		return nil, nil, err
	}
	return all.waits, polls, nil
}

// Items are the waits that overlap a plan's window as a survival curve takes them.
func Items(waits []Wait, p *query.Plan) (items []survival.Item) {
	for i := range waits {
		if waits[i].overlaps(p.Window) {
			items = append(items, itemOf(&waits[i], p.Window))
		}
	}
	return items
}
