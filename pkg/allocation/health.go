package allocation

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

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
		classify := counts.NewClassifier(p, view.Names.Texts())
		for gpu, s := range sights(classify, view, view.Times[snapshot]-recent, snapshot) {
			_, id := view.Names.GPU(gpu)
			switch {
			case !s.chosen:
			case s.last == snapshot:
				figures["gpusSeen"]++
			case !strings.Contains(view.Names.Text(id), "@"): // a pilot's GPU goes with the pilot
				figures["gpusLost"]++
			}
		}
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
