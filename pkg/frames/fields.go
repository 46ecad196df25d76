package frames

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Rows are the items that a list shows, a row each. Its methods return columns.
type Rows[I any] []*I

// Text is a column of texts.
func (r Rows[I]) Text(name string, of func(*I) string) *data.Field { return Text(name, Each(r, of)) }

// Words is a column of texts; nil is null.
func (r Rows[I]) Words(name string, of func(*I) *string) *data.Field { return field(name, Each(r, of)) }

// Number is a column of numbers, see [Number].
func (r Rows[I]) Number(name string, of func(*I) float64) *data.Field {
	return Number(name, Each(r, of))
}

// Whole is a column of whole numbers.
func (r Rows[I]) Whole(name string, of func(*I) int64) *data.Field { return field(name, Each(r, of)) }

// Bool is a column of yes and no.
func (r Rows[I]) Bool(name string, of func(*I) bool) *data.Field { return field(name, Each(r, of)) }

// Time is a column of times, see [Time].
func (r Rows[I]) Time(name string, of func(*I) pool.Micros) *data.Field {
	return Time(name, Each(r, of))
}

// Text is a column of texts.
func Text(name string, values []string) *data.Field { return field(name, values) }

func field(name string, values any) *data.Field {
	f := data.NewField(name, nil, values)
	f.Config = &data.FieldConfig{}
	return f
}

// Number is a column of numbers. A value that is not finite is null: JSON has no NaN and no infinity, and one such
// value would cost the answers to all queries of a request.
func Number(name string, values []float64) *data.Field {
	nullable := make([]*float64, len(values))
	for i := range values {
		if finite(values[i]) {
			nullable[i] = &values[i]
		}
	}
	return field(name, nullable)
}

// NoTime is the null of Time.
const NoTime pool.Micros = math.MinInt64

// Each returns a value of each item of a list, in order: the values of a column.
func Each[I, V any](list []*I, of func(*I) V) []V {
	values := make([]V, len(list))
	for i, item := range list {
		values[i] = of(item)
	}
	return values
}

// Sort orders a list by compare, and items that compare equal by a column as it is shown: in the order of the stored
// texts, pseudonyms would reveal whose they are.
func Sort[I any](p *query.Plan, list []*I, compare func(x, y *I) int, column string, stored func(*I) string) {
	texts := map[*I]string{}
	shown := func(item *I) string {
		text, known := texts[item]
		if !known {
			text = p.Shown(column, stored(item))
			texts[item] = text
		}
		return text
	}
	slices.SortFunc(list, func(x, y *I) int {
		if c := compare(x, y); c != 0 {
			return c
		}
		return cmp.Compare(shown(x), shown(y))
	})
}

// Newest returns the items of a list that its limit shows, by time, the newest first; those of one time stay in order.
func Newest[I any](a *About, list []*I, at func(*I) pool.Micros) Rows[I] {
	shown := a.Shown(len(list))
	if shown < len(list) { // most need not be sorted, which takes long for a year of evictions
		times := Each(list, at)
		slices.Sort(times)
		oldest := times[len(times)-shown]
		list = slices.DeleteFunc(list, func(item *I) bool { return at(item) < oldest })
	}
	slices.SortStableFunc(list, func(x, y *I) int { return cmp.Compare(at(y), at(x)) })
	return list[:shown]
}

// Time is a column of times; NoTime is null.
func Time(name string, values []pool.Micros) *data.Field {
	nullable, at := make([]*time.Time, len(values)), make([]time.Time, len(values))
	for i, t := range values {
		if t != NoTime {
			at[i] = pool.Time(t)
			nullable[i] = &at[i]
		}
	}
	return field(name, nullable)
}

// column is the field configuration of a grouping, a metric or another column of a plan's answer.
func column(p *query.Plan, name string) *data.FieldConfig {
	c := &data.FieldConfig{}
	present(p, name, c)
	return c
}

// present completes a column's configuration with the kind's description of it.
func present(p *query.Plan, name string, c *data.FieldConfig) {
	said := p.Column(name)
	c.DisplayNameFromDS = cmp.Or(c.DisplayNameFromDS, said.Label)
	c.Unit = cmp.Or(c.Unit, said.Unit)
	c.Description = cmp.Or(c.Description, said.Description)
	if said.Decimals >= 0 && c.Decimals == nil {
		d := uint16(said.Decimals)
		c.Decimals = &d
	}
	if words := p.ShownAs(name); len(words) > 0 {
		shown := data.ValueMapper{}
		for value, word := range words {
			shown[value] = data.ValueMappingResult{Text: word}
		}
		c.Mappings = data.ValueMappings{shown}
	}
	if name == "category" && c.Custom == nil {
		keys := map[string]any{}
		for c := range pool.Category(pool.Categories) {
			keys[c.String()] = c.Key()
		}
		c.Custom = map[string]any{"keys": keys}
	}
}

// GroupColumns are the columns of groups, one a grouping; groups[i] holds the values of row i by grouping.
func GroupColumns(p *query.Plan, groups [][]string) []*data.Field {
	var fields []*data.Field
	for g, name := range p.GroupBy {
		values := make([]string, len(groups))
		for i := range groups {
			values[i] = groups[i][g]
		}
		f := Text(name, values)
		// totals have their name in the first column, and nothing in others
		if (name == "project" || name == "jobProject") && (g == 0 || !p.Totals) {
			f.Config.Mappings = data.ValueMappings{data.ValueMapper{"": {Text: Nameless(p, name)}}}
		}
		fields = append(fields, f)
	}
	return fields
}

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
	// Find names of series that differ.
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
	// Rename copies of these series.
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
