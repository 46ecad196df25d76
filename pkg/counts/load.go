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

// Point is the time of a bucket's point: its beginning; of the whole window its newest slice's beginning.
func (c *Count) Point(bucket int) pool.Micros {
	if c.Buckets.Whole && len(c.Begin) > 0 {
		return c.Begin[len(c.Begin)-1]
	}
	return c.Buckets.Starts[bucket]
}

// Drawn returns the buckets that have a point: those with a slice, and with completeBucketsOnly of them the complete
// ones.
func (c *Count) Drawn(p *query.Plan, newest pool.Micros) []int {
	var drawn []int
	for b, n := range c.Slices {
		if n > 0 && p.Keep(c.Buckets, b, newest) {
			drawn = append(drawn, b)
		}
	}
	return drawn
}
