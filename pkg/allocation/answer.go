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

// JobFigures returns those requested metrics of the view `health` that need job ads. A metric is missing or NaN if
// there is no job ad or there are too few runs.
type JobFigures func(ctx context.Context, p *query.Plan) (map[string]float64, error)

// ofJobs are those metrics.
var ofJobs = []string{"jobsLagSeconds", "linkRate", "clockErrorSeconds"}

// Answer answers a query of the kind. jobs gives the figures of the view `health` that need job ads; nil if there is no
// job source. Errors come from the timeline; if only one figure of jobs is requested from `health`, also those of
// the job source.
func Answer(ctx context.Context, s *stores.Stores, p *query.Plan, jobs JobFigures) (data.Frames, error) {
	switch p.View {
	case "current":
		return current(ctx, s.Timeline, p)
	case "changes":
		return changes(ctx, s.Timeline, p)
	case "health":
		return health(ctx, s.Timeline, p, jobs)
	}
	slices, about, err := counts.Load(ctx, s.Timeline, p)
	if err != nil {
		return nil, err
	}
	switch p.View {
	case "stateTimeline":
		return stateTimeline(ctx, slices, p, about)
	case "machines":
		return machines(ctx, s.Counts, slices, p, about)
	case "annotations":
		return gaps(slices, p, about), nil
	}
	start := time.Now()
	count, err := counts.New(ctx, s.Counts, p, slices, p.GroupBy, ClassesOf(p.Metrics)...)
	if err != nil {
		return nil, err
	}
	about.Stat("Computation", "ms", counts.Milliseconds(start))
	return Frames(figuresOf(count, slices, p), p, about), nil
}
