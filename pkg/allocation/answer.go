// Package allocation answers who holds the GPUs and which are free (methodology sections 4 and 5).
package allocation

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query. Errors come from the timeline, and for one figure of jobs in `health` from the job source.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	switch p.View {
	case "current":
		return current(ctx, s.Timeline, p)
	case "changes":
		return changes(ctx, s.Timeline, p)
	case "health":
		return health(ctx, s, p)
	}
	slices, about, err := counts.Load(ctx, s.Timeline, p)
	if err != nil {
		return nil, err
	}
	switch p.View {
	case "stateTimeline":
		return stateTimeline(ctx, slices, p, about)
	case "machines":
		return machines(ctx, s.Memo, slices, p, about)
	case "annotations":
		return gaps(slices, p, about), nil
	}
	start := time.Now()
	figures, err := counts.New(ctx, s.Memo, p, slices, nil, p.GroupBy, ClassesOf(p.Metrics)...)
	if err != nil {
		return nil, err
	}
	about.Stat("Computation", "ms", counts.Milliseconds(start))
	return Frames(figures, p, about), nil
}
