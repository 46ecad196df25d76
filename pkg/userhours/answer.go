// Package userhours answers who used how many GPU-hours (methodology section 6).
package userhours

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// Answer answers a query of the kind. Errors come from the timeline.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	slices, about, err := counts.Load(ctx, s.Timeline, p)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	hours, err := compute(ctx, s.Counts, p, slices)
	if err != nil {
		return nil, err
	}
	about.Stat("Computation", "ms", counts.Milliseconds(start))
	return Frames(hours, p, about), nil
}
