package plugin

import (
	"context"
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/evictions"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// jobFigures gives the view `health` what job ads tell, as far as it is asked for; nil without a job source.
func (s *stores) jobFigures() allocation.JobFigures {
	if s.ads == nil {
		return nil
	}
	return func(ctx context.Context, p *query.Plan) (lagSeconds, linkRate float64, err error) {
		lagSeconds, linkRate = math.NaN(), math.NaN()
		if slices.Contains(p.Metrics, "jobsLagSeconds") {
			newest, err := s.ads.Newest(ctx)
			if err != nil {
				return lagSeconds, linkRate, err
			}
			if !newest.IsZero() {
				lagSeconds = pool.Time(p.Now).Sub(newest).Seconds()
			}
		}
		if slices.Contains(p.Metrics, "linkRate") {
			linkRate, err = evictions.LinkRate(ctx, s.timeline, s.ads, p.Env.Lists, p.Window, p.Now)
		}
		return lagSeconds, linkRate, err
	}
}
