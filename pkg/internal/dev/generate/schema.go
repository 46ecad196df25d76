package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/internal/dev/schema"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// object is a JSON object whose members keep their order: that in which the editor offers them.
type object[V any] []member[V]

type member[V any] struct {
	name  string
	value V
}

func (o *object[V]) set(name string, value V) {
	if !slices.ContainsFunc(*o, func(m member[V]) bool { return m.name == name }) {
		*o = append(*o, member[V]{name, value})
	}
}

// MarshalJSON implements [json.Marshaler].
func (o object[V]) MarshalJSON() ([]byte, error) {
	text := []byte("{")
	for i, m := range o {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, name...), ':'), value...)
	}
	return append(text, '}'), nil
}

type (
	// word is a name as the editor shows it.
	word struct {
		Label       string `json:"label"`
		Description string `json:"description,omitempty"`
		Unit        string `json:"unit,omitempty"`
	}
	// kind is a kind of query in the document.
	kind struct {
		Label          string             `json:"label"`
		Description    string             `json:"description"`
		DefaultView    string             `json:"defaultView"`
		DefaultGroupBy []string           `json:"defaultGroupBy"`
		Views          object[query.View] `json:"views"`
		Metrics        object[word]       `json:"metrics"`
	}
	// filter is a field of the filter: the dimension whose values it takes, or its only values.
	filter struct {
		word
		Dimension string  `json:"dimension,omitempty"`
		Values    []value `json:"values,omitempty"`
	}
	// value is a value as queries write it and as people read it.
	value struct {
		Value string `json:"value"`
		Label string `json:"label"`
	}
)

// fleetKinds are a fleet's in the document.
type fleetKinds struct {
	Kinds      object[kind] `json:"kinds"`
	Dimensions []string     `json:"dimensions"`
}

// schemaOf is the query model as a document, the one that the front end reads (src/query/schema.json): the options of
// the kinds of a pool and of a fleet, and the dimensions whose values a fleet lists.
func schemaOf(ofPool, ofFleet query.Catalog, dimensions []string) any {
	s := struct {
		Version     int            `json:"version"`
		Kinds       object[kind]   `json:"kinds"`
		Fleet       fleetKinds     `json:"fleet"`
		Groupings   object[word]   `json:"groupings"`
		Filters     object[filter] `json:"filters"`
		Dimensions  []string       `json:"dimensions"`
		Dimension   []schema.Word  `json:"dimensionWords"`
		Buckets     []string       `json:"buckets"`
		BucketWords []schema.Word  `json:"bucketWords"`
		Durations   []string       `json:"durations"`
		Duration    []schema.Word  `json:"durationWords"`
	}{
		Version: query.Version, Kinds: described(ofPool),
		Fleet:      fleetKinds{described(ofFleet), dimensions},
		Dimensions: query.Dimensions, Dimension: schema.DimensionWords,
		Buckets: query.BucketNames, BucketWords: schema.BucketWords,
		Durations: query.Durations, Duration: schema.DurationWords,
	}
	all, filters := slices.Concat(ofPool, ofFleet), map[string]bool{}
	for i := range all {
		for _, v := range all[i].Views {
			for _, name := range v.Filters {
				filters[name] = true
			}
			for _, name := range v.GroupBy {
				column := all[i].Column(&query.View{}, name)
				s.Groupings.set(name, word{column.Label, column.Description, ""})
			}
		}
	}
	for _, w := range schema.FilterWords {
		if filters[w.Name] {
			s.Filters.set(w.Name, filter{word{w.Label, w.Description, ""}, w.Dimension, closedValues(w.Name)})
		}
	}
	return s
}

// closedValues are the values that a filter takes if they are words of the model; nil: those of the pool. Memory is
// offered as the pool has it.
func closedValues(name string) (values []value) {
	for g := range query.Groupings {
		d := &query.Groupings[g]
		if d.Filter.Name != name || query.Grouping(g) == query.ByMemory {
			continue
		}
		for i, v := range d.Values {
			if query.Grouping(g) == query.ByCategory {
				values = append(values, value{pool.Category(i).Key(), v})
			} else {
				values = append(values, value{v, cmp.Or(d.Shown[v], v)})
			}
		}
	}
	return values
}

// described are the kinds as the document has them.
func described(c query.Catalog) (all object[kind]) {
	for i := range c {
		k := &c[i]
		described := kind{Label: k.Label, Description: k.Description, DefaultView: k.Views[0].Name,
			DefaultGroupBy: append([]string{}, k.DefaultGroupBy...)}
		for _, v := range k.Views {
			for _, list := range []*[]string{&v.GroupBy, &v.Metrics, &v.DefaultMetrics, &v.Filters, &v.Options} {
				*list = append([]string{}, *list...)
			}
			described.Views.set(v.Name, v)
		}
		for _, name := range schema.Metrics(k) {
			column := schema.Metric(k, name)
			described.Metrics.set(name, word{column.Label, column.Description, column.Unit})
		}
		all.set(k.Name, described)
	}
	return all
}

// tableOf is the table of kinds, views, groupings and metrics in docs/queries.md.
func tableOf(c query.Catalog) string {
	list := func(names []string) string {
		if len(names) == 0 {
			return "–"
		}
		return strings.Join(names, ", ")
	}
	lines := []string{"| query type | view | groupings | metrics |", "|---|---|---|---|"}
	for i := range c {
		kind := "`" + c[i].Name + "`"
		for _, v := range c[i].Views {
			lines = append(lines, strings.TrimSpace(strings.Join([]string{"|", kind, "| `" + v.Name + "` |", list(v.GroupBy),
				"|", list(v.Metrics), "|"}, " ")))
			kind = ""
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "|  |", "| |") + "\n"
}
