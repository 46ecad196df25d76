package frames

import (
	"cmp"
	"math"
	"slices"
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
