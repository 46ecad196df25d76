package counts

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Load forms the slices of the plan's window, with the notices about its data.
func Load(ctx context.Context, tl *timeline.Timeline, p *query.Plan) (*timeline.Slices, *frames.About, error) {
	start := time.Now()
	s, err := Slices(ctx, tl, p, p.Window)
	if err != nil {
		return nil, nil, err
	}
	about := frames.NewAbout(p, s.View, s.Coverage(p.Env.Lists))
	about.Stat("Loading", "ms", Milliseconds(start))
	about.Cadence(s)
	about.Unmatched(s)
	return s, about, nil
}

// Slices forms the slices of a window as a plan needs them.
func Slices(ctx context.Context, tl *timeline.Timeline, p *query.Plan, w pool.Window) (*timeline.Slices, error) {
	view, err := tl.Load(ctx, w.From, w.To)
	if err != nil {
		return nil, err
	}
	s, err := view.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, w)
	if err != nil || p.Env.SliceMinutes != 0 && !p.CompleteBucketsOnly || s.Newest >= w.To {
		return s, err
	}
	_, newest, _, err := tl.Range(ctx) // the view ends before the window: do the data?
	s.ExtendTo(newest)
	return s, err
}

// Milliseconds is the time since start.
func Milliseconds(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }
