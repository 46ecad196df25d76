package allocation

import (
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// summary returns the table of a count over one bucket.
func summary(c *counts.Count, s *timeline.Slices, p *query.Plan, about *frames.About) data.Frames {
	names := s.View.Names.Texts()
	values := func(sums *counts.Sums) (row []float64) {
		for _, m := range p.Metrics {
			row = append(row, metric(m, sums, 0, s.N()))
		}
		return row
	}
	var rows []frames.Row
	var sides [2]counts.Sums
	for g := range c.Groups {
		rows = append(rows, frames.Row{Group: c.Groups[g].Texts(p, p.GroupBy, names), Values: values(c.Of(g))})
		side := c.Groups[g].SideOf(p.GroupBy)
		for _, class := range c.Wants() {
			if sides[side][class] == nil {
				sides[side][class] = []float64{0}
			}
			sides[side][class][0] += c.Sum(g, class, 0)
		}
	}
	var totals []frames.Total
	for side := range pool.Side(2) {
		if sides[side][c.Wants()[0]] != nil {
			totals = append(totals, frames.Total{Name: side.Total(), Values: values(&sides[side])})
		}
	}
	return frames.Table(p, about, rows, totals...)
}

// series returns the series of a count.
func series(c *counts.Count, s *timeline.Slices, p *query.Plan, about *frames.About) data.Frames {
	names := s.View.Names.Texts()
	drawn := c.Drawn(p, s.Newest)
	times := make([]pool.Micros, len(drawn))
	for i, b := range drawn {
		times[i] = c.Point(b)
	}
	var all []frames.Series
	for g := range c.Groups {
		group := c.Groups[g].Texts(p, p.GroupBy, names)
		sums := c.Of(g)
		backfill := c.Groups[g].SideOf(p.GroupBy) == pool.Backfill
		for _, m := range p.Metrics {
			values := make([]float64, len(drawn))
			for i, b := range drawn {
				values[i] = metric(m, sums, b, c.Slices[b])
			}
			// A free GPU counts on its primary slot where it has one: backfill's series are mostly zero throughout.
			hidden := backfill && m == "free" && !slices.ContainsFunc(values, func(v float64) bool { return v != 0 })
			all = append(all, frames.Series{Group: group, Metric: m, Times: times, Values: values, Hidden: hidden})
		}
	}
	return frames.TimeSeries(p, about, all)
}
