package frames

import (
	"maps"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"

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

// Named is the answer to one of several queries that are drawn together.
type Named struct {
	RefID  string
	Frames data.Frames
	Label  func(metric string) string // the metric's readable name
}

// Distinguish gives series of different answers different names. Equal names get their metric's label if the metrics
// differ, and otherwise their query's refId. Because fields may be shared with other answers, a copy is renamed.
func Distinguish(answers []Named) {
	refID := func(a *Named, _ *data.Field) string { return a.RefID }
	extend(answers, func(_ *Named, f *data.Field) string { return f.Name },
		func(a *Named, f *data.Field) string { return a.Label(f.Name) })
	extend(answers, refID, refID)
}

// extend adds distinguishing texts to the names of series that are equal, but differ in something.
func extend(answers []Named, in, by func(*Named, *data.Field) string) {
	first, ambiguous := map[string]string{}, map[string]bool{}
	for i := range answers {
		for _, frame := range answers[i].Frames {
			for _, f := range frame.Fields {
				if !isSeries(f) {
					continue
				}
				name, this := f.Config.DisplayNameFromDS, in(&answers[i], f)
				if other, ok := first[name]; ok && other != this {
					ambiguous[name] = true
				}
				first[name] = this
			}
		}
	}
	for i := range answers {
		for _, frame := range answers[i].Frames {
			frame.Fields = slices.Clone(frame.Fields)
			renamed := map[string]string{}
			for k, f := range frame.Fields {
				if isSeries(f) && ambiguous[f.Config.DisplayNameFromDS] {
					name := f.Config.DisplayNameFromDS + " · " + by(&answers[i], f)
					renamed[f.Config.DisplayNameFromDS] = name
					own(frame, k).DisplayNameFromDS = name
				}
			}
			for k, f := range frame.Fields { // bands end at the renamed bounds
				if f.Config == nil {
					continue
				}
				if low, ok := f.Config.Custom["fillBelowTo"].(string); ok && renamed[low] != "" {
					custom := maps.Clone(f.Config.Custom)
					custom["fillBelowTo"] = renamed[low]
					own(frame, k).Custom = custom
				}
			}
		}
	}
}

// isSeries reports whether legends name a field: it has labels, though they may be none.
func isSeries(f *data.Field) bool { return f.Labels != nil && f.Config != nil }

// own puts a copy in the place of a frame's field, and returns its configuration.
func own(frame *data.Frame, k int) *data.FieldConfig {
	field, config := *frame.Fields[k], *frame.Fields[k].Config
	field.Config, frame.Fields[k] = &config, &field
	return &config
}
