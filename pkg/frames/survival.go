package frames

import (
	"math"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/query"
)

// Curve is one group's survival curve: steps at ascending hours, drawn in [From, To].
type Curve struct {
	Group    []string             // by the plan's groupings
	From, To float64              // hours
	Hours    []float64            // where a step begins
	Values   map[string][]float64 // by metric: the height of each step
}

// Survival returns all curves in one wide frame: `hours` ascending, per group a field a metric, carried forward within
// the drawn range and null outside it.
func Survival(p *query.Plan, a *About, curves []Curve) data.Frames {
	slices.SortStableFunc(curves, func(x, y Curve) int { return query.CompareGroups(p.GroupBy, x.Group, y.Group) })
	curves = curves[:a.cut(p, len(curves), mostSeries, "curves")]
	if len(curves) == 0 {
		return a.Finish(nil)
	}
	steps := 0 // the frame has a row for each step of any curve
	curves = curves[:a.fit(len(curves), "curves", func(i int) int {
		before := steps * i
		steps += len(curves[i].Hours) + 2
		return len(p.Metrics) * (steps*(i+1) - before)
	})]
	hours := make([]float64, 0, steps)
	for _, c := range curves {
		hours = append(hours, c.From)
		for _, h := range c.Hours {
			if c.From <= h && h <= c.To {
				hours = append(hours, h)
			}
		}
		hours = append(hours, c.To)
	}
	slices.Sort(hours)
	hours = slices.Compact(hours)
	x := data.NewField("hours", nil, hours)
	x.Config = column(p, "hours")
	fields := []*data.Field{x}
	for i, c := range curves {
		band := bandOf(p, i, c.Group)
		for _, metric := range p.Metrics {
			f := Number(metric, c.at(hours, metric))
			f.Labels = data.Labels{}
			for g, name := range p.GroupBy {
				f.Labels[name] = c.Group[g]
			}
			f.Config.DisplayNameFromDS = seriesName(p, c.Group, metric)
			f.Config.Custom = categoryKey(p, c.Group)
			band.draw(metric, f.Config)
			fields = append(fields, f)
		}
	}
	return tableOf(p, a, fields)
}

// at returns a metric's values at ascending hours, NaN outside the drawn range.
func (c *Curve) at(hours []float64, metric string) []float64 {
	heights, values, step := c.Values[metric], make([]float64, len(hours)), -1
	for i, h := range hours {
		for step+1 < len(c.Hours) && c.Hours[step+1] <= h {
			step++
		}
		if values[i] = math.NaN(); c.From <= h && h <= c.To && step >= 0 {
			values[i] = heights[step]
		}
	}
	return values
}
