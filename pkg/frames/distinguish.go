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
	metric := func(_ *Named, f *data.Field) string { return f.Name }
	refID := func(a *Named, _ *data.Field) string { return a.RefID }
	extend(answers, ambiguous(answers, metric), func(a *Named, f *data.Field) string { return a.Label(f.Name) })
	extend(answers, ambiguous(answers, refID), refID)
}

// ambiguous are the names of fields that differ in something.
func ambiguous(answers []Named, in func(*Named, *data.Field) string) map[string]bool {
	first, found := map[string]string{}, map[string]bool{}
	for i := range answers {
		for _, frame := range answers[i].Frames {
			for _, f := range frame.Fields {
				if !isSeries(f) {
					continue
				}
				name, this := f.Config.DisplayNameFromDS, in(&answers[i], f)
				if other, ok := first[name]; ok && other != this {
					found[name] = true
				}
				first[name] = this
			}
		}
	}
	return found
}

// isSeries reports whether legends name a field: it has labels, though they may be none.
func isSeries(f *data.Field) bool { return f.Labels != nil && f.Config != nil }

// extend adds distinguishing texts to the names of fields.
func extend(answers []Named, names map[string]bool, by func(*Named, *data.Field) string) {
	if len(names) == 0 {
		return
	}
	for i := range answers {
		a := &answers[i]
		for _, frame := range a.Frames {
			frame.Fields = slices.Clone(frame.Fields)
			renamed := map[string]string{}
			for k, f := range frame.Fields {
				if isSeries(f) && names[f.Config.DisplayNameFromDS] {
					name := f.Config.DisplayNameFromDS + " · " + by(a, f)
					renamed[f.Config.DisplayNameFromDS] = name
					own, config := *f, *f.Config
					config.DisplayNameFromDS = name
					own.Config = &config
					frame.Fields[k] = &own
				}
			}
			followBands(frame, renamed)
		}
	}
}

// followBands lets bands end at the renamed bounds.
func followBands(frame *data.Frame, renamed map[string]string) {
	for k, f := range frame.Fields {
		if f.Config == nil {
			continue
		}
		if low, ok := f.Config.Custom["fillBelowTo"].(string); ok && renamed[low] != "" {
			own, config := *f, *f.Config // others are given the same answer
			config.Custom = maps.Clone(config.Custom)
			config.Custom["fillBelowTo"] = renamed[low]
			own.Config = &config
			frame.Fields[k] = &own
		}
	}
}
