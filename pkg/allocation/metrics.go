package allocation

import (
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// needs are the classes that a metric is made from.
func needs(metric string) []Class {
	switch metric {
	case "allocatedPercent", "available":
		return []Class{Claimed, Unclaimed}
	case "allocated":
		return []Class{Claimed}
	case "free":
		return []Class{Free}
	case "unclaimed":
		return []Class{Unclaimed}
	case "drained":
		return []Class{Drained}
	case "prevented":
		return []Class{Prevented}
	}
	return nil
}

func classesOf(metrics []string) (all []Class) {
	for _, m := range metrics {
		for _, class := range needs(m) {
			if !slices.Contains(all, class) {
				all = append(all, class)
			}
		}
	}
	return all
}

// metric is the formula of methodology section 5 over the sums of GPU-slices in a bucket and its N; NaN where it has none.
func metric(name string, sums *[classes][]float64, bucket, n int) float64 {
	switch name {
	case "allocatedPercent":
		available := sums[Claimed][bucket] + sums[Unclaimed][bucket]
		if available == 0 {
			return math.NaN()
		}
		return 100 * sums[Claimed][bucket] / available
	case "available":
		return (sums[Claimed][bucket] + sums[Unclaimed][bucket]) / float64(n)
	}
	return sums[needs(name)[0]][bucket] / float64(n)
}

// summary returns the table of a count over one bucket.
func summary(c *Count, s *timeline.Slices, p *query.Plan, about *frames.About) data.Frames {
	names := s.View.Names.Texts()
	values := func(sums *[classes][]float64) (row []float64) {
		for _, m := range p.Metrics {
			row = append(row, metric(m, sums, 0, s.N()))
		}
		return row
	}
	var rows []frames.Row
	var sides [2][classes][]float64
	for g := range c.Groups {
		rows = append(rows, frames.Row{Group: c.Groups[g].Texts(p.GroupBy, names), Values: values(&c.sums[g])})
		side := c.Groups[g].sideOf(p.GroupBy)
		for _, class := range c.wants {
			if sides[side][class] == nil {
				sides[side][class] = []float64{0}
			}
			sides[side][class][0] += c.sums[g][class][0]
		}
	}
	var totals []frames.Total
	for side := range pool.Side(2) {
		if sides[side][c.wants[0]] != nil {
			totals = append(totals, frames.Total{Name: side.Total(), Values: values(&sides[side])})
		}
	}
	return frames.Table(p, about, rows, totals...)
}

// sideOf is the side of a group: groupings have the category or the side.
func (g *Group) sideOf(groupings []string) pool.Side {
	if slices.Contains(groupings, "category") {
		return g.Category.Side()
	}
	return g.Side
}

// series returns the series of a count.
func series(c *Count, s *timeline.Slices, p *query.Plan, about *frames.About) data.Frames {
	names := s.View.Names.Texts()
	drawn := c.Drawn(p, s.Newest)
	times := make([]pool.Micros, len(drawn))
	for i, b := range drawn {
		times[i] = c.Point(b)
	}
	var all []frames.Series
	for g := range c.Groups {
		group := c.Groups[g].Texts(p.GroupBy, names)
		sums := &c.sums[g]
		backfill := c.Groups[g].sideOf(p.GroupBy) == pool.Backfill
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
