package kinds

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// jobFigures returns the function for the requested figures of the view `health` that need job ads; nil without a
// job source.
func jobFigures(s *stores.Stores) allocation.JobFigures {
	if s.Ads == nil {
		return nil
	}
	return func(ctx context.Context, p *query.Plan) (map[string]float64, error) {
		figures := map[string]float64{}
		if slices.Contains(p.Metrics, "jobsLagSeconds") {
			newest, err := s.Ads.Newest(ctx)
			if err != nil {
				return nil, err
			}
			if !newest.IsZero() {
				figures["jobsLagSeconds"] = pool.Time(p.Now).Sub(newest).Seconds()
			}
		}
		if slices.Contains(p.Metrics, "linkRate") || slices.Contains(p.Metrics, "clockErrorSeconds") {
			links, err := linked.LinksOf(ctx, s.Runs, s.Ads, p.Env.Lists, p.Window, p.Now)
			if err != nil {
				return nil, err
			}
			figures["linkRate"], figures["clockErrorSeconds"] = links.Rate, float64(links.ClockError)/float64(pool.Second)
		}
		return figures, nil
	}
}
