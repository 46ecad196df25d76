// Package userhours answers who used how many GPU-hours (methodology section 6).
package userhours

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/allocation"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Answer answers a query of the kind `userHours`. Errors are those of the plan and of the timeline.
func Answer(ctx context.Context, tl *timeline.Timeline, env query.Env, r query.Request) (data.Frames, error) {
	p, err := r.Plan(env)
	if err != nil {
		return nil, err
	}
	s, about, err := allocation.Load(ctx, tl, p)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	hours, err := compute(ctx, p, s)
	if err != nil {
		return nil, err
	}
	about.Stat("Computation", "ms", float64(time.Since(start).Microseconds())/1000)
	if p.View == "summary" {
		return summary(hours, p, about), nil
	}
	return series(hours, p, about), nil
}
