package frames

import (
	"math"
	"slices"
	"sort"

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
	all := len(curves)
	curves = curves[:min(all, p.Max(100))]
	a.cut(len(curves), all, "curves")
	if len(curves) == 0 {
		return a.Finish(nil)
	}
	steps := 0 // the frame has a row for each step of any curve
	curves = curves[:a.fit(len(curves), "curves", func(i int) int {
		before := steps * i
		steps += len(curves[i].Hours) + 2
		return len(p.Metrics) * (steps*(i+1) - before)
	})]
	var hours []float64
	for _, c := range curves {
		hours = append(hours, c.From, c.To)
		for _, h := range c.Hours {
			if c.From <= h && h <= c.To {
				hours = append(hours, h)
			}
		}
	}
	slices.Sort(hours)
	hours = slices.Compact(hours)
	x := data.NewField("hours", nil, hours)
	x.Config = column(p, "hours")
	fields := []*data.Field{x}
	for i, c := range curves {
		band := bandOf(p, i, c.Group)
		for _, metric := range p.Metrics {
			values := make([]float64, len(hours))
			for i, h := range hours {
				step := sort.Search(len(c.Hours), func(k int) bool { return c.Hours[k] > h }) - 1
				if h < c.From || h > c.To || step < 0 {
					values[i] = math.NaN()
				} else {
					values[i] = c.Values[metric][step]
				}
			}
			f := Number(metric, values)
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
