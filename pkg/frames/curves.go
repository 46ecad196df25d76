package frames

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/survival"
)

// Lives are the data of a group's survival curve.
type Lives struct {
	Group []string // by the plan's groupings
	Items survival.Cohort
}

// Curves draws a survival curve for each group. duration and subjects ("GPUs") are words of sentences: of curves that
// are conditional on reaching an age, and of groups that never have enough at risk for one.
func Curves(p *query.Plan, a *About, duration, subjects string, groups []Lives,
	estimator func(survival.Cohort) survival.Curve) data.Frames {
	slices.SortStableFunc(groups, func(x, y Lives) int { return query.CompareGroups(p.GroupBy, x.Group, y.Group) })
	var curves []curve
	few := 0
	for _, g := range groups {
		drawn, ok := g.Items.Drawn(estimator)
		if !ok {
			few++
			continue
		}
		curves = append(curves, curve{drawn, g.Group})
		if drawn.From > 0 {
			name := strings.TrimSpace(duration + " " + strings.Join(g.Group, ", "))
			a.Tell("Curve begins: "+name, "h", pool.Hours(drawn.From), "%s: the curve is conditional on reaching %s h, from "+
				"where at least %d %s are at risk", name, Decimal(pool.Hours(drawn.From)), survival.MinAtRisk, subjects)
		}
	}
	if few > 0 {
		a.Count("Groups without a curve", few, "%s without a curve: never %d %s at risk", Count(few, "group"),
			survival.MinAtRisk, subjects)
	}
	return together(p, a, curves)
}

type curve struct {
	survival.Curve
	group []string // by the plan's groupings
}

// together returns all curves in one wide frame: `hours` ascending, per group a field a metric, carried forward within
// the drawn range and null outside it.
func together(p *query.Plan, a *About, curves []curve) data.Frames {
	// Keep as many curves as a frame may have.
	curves = curves[:a.cut(p, len(curves), mostSeries, "curves")]
	if len(curves) == 0 {
		return a.Finish(nil)
	}
	steps := 0 // the frame has a row for each step of any curve
	curves = curves[:a.fit(len(curves), "curves", func(i int) int {
		before := steps * i
		steps += len(curves[i].Points) + 2
		return len(p.Metrics) * (steps*(i+1) - before)
	})]
	// Take the ages of all steps, and draw each curve at all of them.
	var ages []pool.Micros
	for _, c := range curves {
		for _, step := range c.Points {
			ages = append(ages, step.Age)
		}
		ages = append(ages, c.Until)
	}
	slices.Sort(ages)
	ages = slices.Compact(ages)
	hours := make([]float64, len(ages))
	for i, age := range ages {
		hours[i] = pool.Hours(age)
	}
	fields := []*data.Field{field("hours", hours)}
	for i, c := range curves {
		band := bandOf(p, i, c.group)
		for _, metric := range p.Metrics {
			f := Number(metric, c.values(ages, metric))
			f.Labels = labelsOf(p, c.group)
			f.Config.DisplayNameFromDS = seriesName(p, c.group, metric)
			f.Config.Custom = categoryKey(p, c.group)
			band.draw(metric, f.Config)
			fields = append(fields, f)
		}
	}
	return Columns(p, a, fields...)
}

// values returns a metric's values at ages, NaN outside the drawn range.
func (c *curve) values(ages []pool.Micros, metric string) []float64 {
	values := make([]float64, len(ages))
	for i, age := range ages {
		if values[i] = math.NaN(); c.From <= age && age <= c.Until {
			values[i] = height(c.At(age), metric)
		}
	}
	return values
}

func height(at survival.Point, metric string) float64 {
	switch metric {
	case ofCurve:
		return at.Survival
	case "low":
		low, _ := at.Interval()
		return low
	case "high":
		_, high := at.Interval()
		return high
	}
	return float64(at.AtRisk)
}

// band draws a curve's interval: an area between its bounds, which have no lines, in the curve's color. The zero band
// leaves a curve to the panel.
type band struct {
	color string
	low   string // the display name of the lower bound
}

// bandColors are Grafana's, in the order of its classic palette as far as they differ.
var bandColors = []string{"green", "yellow", "blue", "orange", "red", "purple", "dark-green", "dark-yellow",
	"dark-blue", "dark-orange", "dark-red", "dark-purple"}

// bandOf returns the band of the curve at a place, if the query requests the curve and both bounds.
func bandOf(p *query.Plan, place int, group []string) band {
	for _, metric := range []string{ofCurve, "low", "high"} {
		if !slices.Contains(p.Metrics, metric) {
			return band{}
		}
	}
	return band{bandColors[place%len(bandColors)], seriesName(p, group, "low")}
}

func (b band) draw(metric string, c *data.FieldConfig) {
	if b.low == "" || metric == "atRisk" {
		return
	}
	c.Color = map[string]any{"mode": "fixed", "fixedColor": b.color}
	if metric == ofCurve {
		return
	}
	custom := map[string]any{"lineWidth": 0,
		"hideFrom": map[string]any{"legend": true, "tooltip": false, "viz": false}}
	if metric == "high" {
		custom["fillBelowTo"], custom["fillOpacity"] = b.low, 15
	}
	maps.Copy(custom, c.Custom)
	c.Custom = custom
}
