// Package allocation answers who holds the GPUs and which are free (methodology sections 4 and 5).
package allocation

import (
	"context"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
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

// Frames returns the table of the view `summary`, whose figures have one bucket, otherwise series.
func Frames(f *counts.Figures, p *query.Plan, about *frames.About) data.Frames {
	if p.View == "summary" {
		return summary(f, p, about)
	}
	return series(f, p, about)
}

// summary returns the table of figures of one bucket.
func summary(f *counts.Figures, p *query.Plan, about *frames.About) data.Frames {
	wants := ClassesOf(p.Metrics)
	values := func(sums *counts.Sums) []float64 {
		return metrics.Values(p.Metrics, &point{sums, 0, f.Slices[0]})
	}
	var rows []frames.Row
	var sides [2]counts.Sums
	for i := range f.Groups {
		g := &f.Groups[i]
		rows = append(rows, frames.Row{Group: g.Texts, Values: values(&g.Sums)})
		for _, class := range wants {
			if sides[g.Side][class] == nil {
				sides[g.Side][class] = []float64{0}
			}
			sides[g.Side][class][0] += g.Sums[class][0]
		}
	}
	var totals []frames.Total
	for side := range pool.Side(2) {
		if sides[side][wants[0]] != nil {
			totals = append(totals, frames.Total{Name: side.Total(), Values: values(&sides[side])})
		}
	}
	return frames.Table(p, about, rows, totals...)
}

func series(f *counts.Figures, p *query.Plan, about *frames.About) data.Frames {
	var all []frames.Series
	figures := metrics.Functions(p.Metrics)
	for i := range f.Groups {
		g := &f.Groups[i]
		for k, m := range p.Metrics {
			values, at := make([]float64, len(f.Drawn)), &point{sums: &g.Sums}
			for n, b := range f.Drawn {
				at.bucket, at.slices = b, f.Slices[b]
				values[n] = figures[k](at)
			}
			// A free GPU counts on its primary slot if it has one: backfill's series are mostly zero throughout.
			hidden := g.Side == pool.Backfill && m == "free" &&
				!slices.ContainsFunc(values, func(v float64) bool { return v > 0 })
			all = append(all, frames.Series{Group: g.Texts, Metric: m, Times: f.Times, Values: values, Hidden: hidden})
		}
	}
	return frames.TimeSeries(p, about, all)
}
