package counts

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Load forms the slices of the plan's window, with the notices about its data.
func Load(ctx context.Context, tl *timeline.Timeline, p *query.Plan) (*timeline.Slices, *frames.About, error) {
	start := time.Now()
	view, err := tl.Load(ctx, p.Window.From, p.Window.To)
	if err != nil {
		return nil, nil, err
	}
	loaded := Milliseconds(start)
	s, err := view.Slices(ctx, p.Env.Zone, p.Env.SliceMinutes, p.Window)
	if err != nil {
		return nil, nil, err
	}
	// the view ends before the window: do the data?
	if (p.Env.SliceMinutes == 0 || p.CompleteBucketsOnly) && s.Newest < p.Window.To {
		_, newest, _, err := tl.Range(ctx)
		if err != nil {
			return nil, nil, err
		}
		s.GoOn(newest)
	}
	about := frames.NewAbout(p, view, s.Coverage(p.Env.Lists))
	about.Stat("Loading", "ms", loaded)
	about.Cadence(s)
	about.Unmatched(s)
	return s, about, nil
}

// Milliseconds is the time since start.
func Milliseconds(start time.Time) float64 { return float64(time.Since(start).Microseconds()) / 1000 }
