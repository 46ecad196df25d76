package allocation

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// JobFigures tells the metrics of the view `health` that need job ads, as far as they are asked for. One that is missing or
// NaN does not exist, because of no job ad or too few runs.
type JobFigures func(ctx context.Context, p *query.Plan) (map[string]float64, error)

// ofJobs are those metrics.
var ofJobs = []string{"jobsLagSeconds", "linkRate", "clockErrorSeconds"}

// Answer answers a query of the kind `allocation`. Errors are those of the plan and of the timeline.
func Answer(ctx context.Context, tl *timeline.Timeline, env query.Env, r query.Request) (data.Frames, error) {
	return AnswerWithJobs(ctx, tl, env, r, nil)
}

// AnswerWithJobs is Answer with the figures of the view `health` that need job ads.
func AnswerWithJobs(ctx context.Context, tl *timeline.Timeline, env query.Env, r query.Request, jobs JobFigures) (data.Frames, error) {
	p, err := r.Plan(env)
	if err != nil {
		return nil, err
	}
	switch p.View {
	case "current":
		return current(ctx, tl, p)
	case "health":
		return health(ctx, tl, p, jobs)
	}
	s, about, err := Load(ctx, tl, p)
	if err != nil {
		return nil, err
	}
	switch p.View {
	case "stateTimeline":
		return stateTimeline(ctx, s, p, about)
	case "machines":
		return machines(ctx, s, p, about)
	case "annotations":
		return gaps(s, p, about), nil
	}
	start := time.Now()
	count, err := NewCount(ctx, p, s, p.GroupBy, classesOf(p.Metrics)...)
	if err != nil {
		return nil, err
	}
	about.Stat("Computation", "ms", milliseconds(start))
	if p.View == "summary" {
		return summary(count, s, p, about), nil
	}
	return series(count, s, p, about), nil
}

// Load forms the slices of the plan's window, with what there is to say about its data.
func Load(ctx context.Context, tl *timeline.Timeline, p *query.Plan) (*timeline.Slices, *frames.About, error) {
	start := time.Now()
	view, err := tl.Load(ctx, p.Window.From, p.Window.To)
	if err != nil {
		return nil, nil, err
	}
	loaded := milliseconds(start)
	s, err := view.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, p.Window)
	if err != nil {
		return nil, nil, err
	}
	if (p.Env.SliceMinutes == 0 || p.CompleteBucketsOnly) && s.Newest < p.Window.To { // the view ends before the window: do the data?
		_, newest, _, err := tl.Range(ctx)
		if err != nil {
			return nil, nil, err
		}
		s.GoOn(newest)
	}
	about := frames.NewAbout(p, view, s.Coverage(p.Env.Lists))
	about.Stat("Loading", "ms", loaded)
	about.Unmatched(view, daysOf(s))
	return s, about, nil
}

func daysOf(s *timeline.Slices) []*timeline.Day {
	days := make([]*timeline.Day, len(s.Days))
	for i := range s.Days {
		days[i] = s.Days[i].Day
	}
	return days
}

func milliseconds(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }

// Point is the time of a bucket's point: its beginning; of the whole window its newest slice's beginning.
func (c *Count) Point(bucket int) pool.Micros {
	if c.Buckets.Whole && len(c.Begin) > 0 {
		return c.Begin[len(c.Begin)-1]
	}
	return c.Buckets.Starts[bucket]
}

// Drawn returns the buckets that have a point: those with a slice, and with completeBucketsOnly of them the complete ones.
func (c *Count) Drawn(p *query.Plan, newest pool.Micros) []int {
	var drawn []int
	for b, n := range c.Slices {
		if n > 0 && p.Keep(c.Buckets, b, newest) {
			drawn = append(drawn, b)
		}
	}
	return drawn
}
