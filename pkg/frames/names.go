package frames

import (
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/query"
)

// ofCurve is the metric of a survival curve itself, without its bounds.
const ofCurve = "survival"

// seriesName is the name of a group's metric in legends: by the query's legend, otherwise the group, or the metric if
// there is no group. If there are several metrics, each name has its metric, except a curve among its bounds.
func seriesName(p *query.Plan, group []string, metric string) string {
	label := p.Column(metric).Label
	name := p.Legend.Name(func(key string) string {
		if i := slices.Index(p.GroupBy, key); i >= 0 {
			return groupValue(p, group, i)
		}
		return label
	})
	if name == "" {
		parts := make([]string, len(group))
		for i := range group {
			parts[i] = groupValue(p, group, i)
		}
		name = strings.Join(parts, " · ")
	}
	switch {
	case name == "":
		return label
	case len(p.Metrics) > 1 && metric != ofCurve && !p.Legend.Has(query.LegendMetric):
		return name + " · " + label
	}
	return name
}

func groupValue(p *query.Plan, group []string, i int) string {
	if shown, known := p.ShownAs(p.GroupBy[i])[group[i]]; known {
		return shown
	}
	if group[i] == "" {
		return Nameless(p, p.GroupBy[i])
	}
	return group[i]
}

// Nameless is how a group of a grouping without a value, which is stored as "", is shown.
func Nameless(p *query.Plan, grouping string) string {
	if grouping == "jobProject" {
		grouping = "project"
	}
	return "No " + strings.ToLower(p.Column(grouping).Label)
}
