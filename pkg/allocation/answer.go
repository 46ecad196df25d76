// Package allocation answers who holds the GPUs and which are free (methodology sections 4 and 5).
package allocation

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
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

// jobMetrics are the metrics of the view `health` that need job ads.
var jobMetrics = healthMetrics[4:]

// jobFigures returns the requested metrics that need job ads, without those that have no ads or too few runs.
func jobFigures(ctx context.Context, s *stores.Stores, p *query.Plan) (map[string]float64, error) {
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
		known, err := linked.HistoryOf(ctx, s.Runs, s.Ads, p.Env.Lists, p.Window)
		if err != nil {
			return nil, err
		}
		figures["linkRate"] = linked.ShareOf(known.Explanations, p.Now, linked.OnBackfill(p.Window)).Rate()
		figures["clockErrorSeconds"] = float64(known.Clocks.ClockError(p.Window)) / float64(pool.Second)
	}
	return figures, nil
}

// countGPUs counts the chosen GPUs of a snapshot, and those of the time just before it that it lacks.
func countGPUs(p *query.Plan, view *timeline.View, snapshot int) (seen, lost float64) {
	classify := counts.NewClassifier(p, view.Names.Texts())
	for gpu, s := range sights(classify, view, view.Times[snapshot]-recent, snapshot) {
		_, id := view.Names.GPU(gpu)
		switch {
		case !s.chosen:
		case s.last == snapshot:
			seen++
		case !strings.Contains(view.Names.Text(id), "@"): // a pilot's GPU goes with the pilot
			lost++
		}
	}
	return seen, lost
}

// health returns one row on the state of the data.
func health(ctx context.Context, all *stores.Stores, p *query.Plan) (data.Frames, error) {
	tl := all.Timeline
	s, about, err := counts.Load(ctx, tl, p)
	if err != nil {
		return nil, err
	}
	_, newest, any, err := tl.Range(ctx)
	if err != nil {
		return nil, err
	}
	if !any {
		return about.Finish(nil), nil
	}
	figures := map[string]float64{
		"snapshotAgeSeconds": float64(p.Now-newest) / float64(pool.Second),
		"coveragePercent":    0,
		"gpusSeen":           0,
		"gpusLost":           0,
	}
	if window := p.Window.To - p.Window.From; window > 0 {
		figures["coveragePercent"] = 100 * float64(s.Covered(p.Window)) / float64(window)
	}
	// Count the GPUs of the newest snapshot, and those that it lacks.
	view, snapshot, err := loadNewest(ctx, tl, p.Window.To, recent)
	if err != nil {
		return nil, err
	}
	if snapshot >= 0 {
		figures["gpusSeen"], figures["gpusLost"] = countGPUs(p, view, snapshot)
	}
	// Ask the job source, which may not answer.
	if all.Ads != nil && slices.ContainsFunc(p.Metrics, func(m string) bool { return slices.Contains(jobMetrics, m) }) {
		found, err := jobFigures(ctx, all, p)
		switch {
		case err == nil:
			maps.Copy(figures, found)
		case len(p.Metrics) == 1 || ctx.Err() != nil: // the only figure: an alert rule must know
			return nil, err
		default:
			about.Warn("job ads could not be read, %s are left out: %v", strings.Join(jobMetrics, ", "), err)
		}
	}
	// Show the figures that have a value.
	shown := *p
	shown.Metrics = nil
	var values []float64
	for _, m := range p.Metrics {
		if figure, ok := figures[m]; ok && !math.IsNaN(figure) {
			shown.Metrics, values = append(shown.Metrics, m), append(values, figure)
		}
	}
	if len(values) == 0 {
		return about.Finish(nil), nil
	}
	return frames.Table(&shown, about, []frames.Row{{Values: values}}), nil
}

// gaps lists the collector's gaps in the window, as annotations.
func gaps(s *timeline.Slices, p *query.Plan, about *frames.About) data.Frames {
	var all frames.Rows[timeline.Gap]
	for _, g := range s.View.Gaps(p.Window) {
		all = append(all, &g)
	}
	return frames.List(p, about,
		all.Time("time", func(g *timeline.Gap) pool.Micros { return g.From }),
		all.Time("timeEnd", func(g *timeline.Gap) pool.Micros { return g.To }),
		all.Text("title", func(*timeline.Gap) string { return "Collector gap" }),
		all.Text("text", func(g *timeline.Gap) string {
			return "No snapshot for " + frames.Decimal(pool.Hours(g.To-g.From)) + " h"
		}),
		all.Text("tags", func(*timeline.Gap) string { return "gap" }),
	)
}
