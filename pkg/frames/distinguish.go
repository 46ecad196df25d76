package frames

import (
	"maps"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"
)

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
