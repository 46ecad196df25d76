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
var needs = map[string][]Class{
	"allocatedPercent": {Claimed, Unclaimed},
	"allocated":        {Claimed},
	"available":        {Claimed, Unclaimed},
	"free":             {Free},
	"unclaimed":        {Unclaimed},
	"drained":          {Drained},
	"prevented":        {Prevented},
}

func classesOf(metrics []string) (all []Class) {
	for _, m := range metrics {
		for _, class := range needs[m] {
			if !slices.Contains(all, class) {
				all = append(all, class)
			}
		}
	}
	return all
}

// metric is the formula of methodology section 5 over sums of GPU-slices and N; NaN where it has none.
func metric(name string, sums *[classes]float64, n int) float64 {
	sum := 0.0
	for _, class := range needs[name] {
		sum += sums[class]
	}
	if name != "allocatedPercent" {
		return sum / float64(n)
	}
	if sum == 0 {
		return math.NaN()
	}
	return 100 * sums[Claimed] / sum
}

// at returns the sums of a group in a bucket.
func (c *Count) at(group, bucket int) (sums [classes]float64) {
	for _, class := range c.wants {
		sums[class] = c.sums[group][class][bucket]
	}
	return sums
}

// summary returns the table of a count over one bucket.
func summary(c *Count, s *timeline.Slices, p *query.Plan, about *frames.About) data.Frames {
	names := s.View.Names.Texts()
	values := func(sums *[classes]float64) (row []float64) {
		for _, m := range p.Metrics {
			row = append(row, metric(m, sums, s.N()))
		}
		return row
	}
	var rows []frames.Row
	var sides [2][classes]float64
	var has [2]bool
	for g := range c.Groups {
		sums := c.at(g, 0)
		rows = append(rows, frames.Row{Group: c.Groups[g].Texts(p.GroupBy, names), Values: values(&sums)})
		side := c.Groups[g].sideOf(p.GroupBy)
		has[side] = true
		for class, sum := range sums {
			sides[side][class] += sum
		}
	}
	var totals []frames.Total
	for side := range pool.Side(2) {
		if has[side] {
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
		for _, m := range p.Metrics {
			values := make([]float64, len(drawn))
			for i, b := range drawn {
				sums := c.at(g, b)
				values[i] = metric(m, &sums, c.Slices[b])
			}
			all = append(all, frames.Series{Group: group, Metric: m, Times: times, Values: values})
		}
	}
	return frames.TimeSeries(p, about, all)
}
