// Generate writes into the repository what its code says of itself: the kinds of queries, the settings, the dashboards
// and alert rules. It runs for go generate in ./pkg/kinds, ./pkg/internal/dev/schema and ./pkg/internal/dev/dashboards,
// and writes all of them each time.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/internal/dev/checkout"
	"github.com/chtc/gpureports/pkg/internal/dev/dashboards"
	"github.com/chtc/gpureports/pkg/internal/dev/documents"
	"github.com/chtc/gpureports/pkg/internal/dev/schema"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// reader reads a file by its path from the repository's root.
type reader = func(path string) ([]byte, error)

// generated are all generated files, by their paths from the repository's root.
func generated(read reader) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, files := range []func(reader) (map[string][]byte, error){ofKinds, schema.Files, dashboards.Files} {
		made, err := files(read)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, made)
	}
	return all, nil
}

func write() error {
	root, err := checkout.Root()
	if err != nil {
		return err
	}
	files, err := generated(func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(root, path)) })
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(root, path), content, 0o644); err != nil {
			return err
		}
	}
	return err
}

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

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
	lines := []string{"| query type | view | groupings | metrics |", "|---|---|---|---|"}
	for i := range c {
		kind := "`" + c[i].Name + "`"
		for _, v := range c[i].Views {
			lines = append(lines, strings.TrimSpace(strings.Join([]string{"|", kind, "| `" + v.Name + "` |", listed(v.GroupBy),
				"|", listed(v.Metrics), "|"}, " ")))
			kind = ""
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), "|  |", "| |") + "\n"
}

// ofKinds are the files that the descriptions of the kinds are written into: the front end's schema, the tables of
// docs/queries.md, and the page for those who ask by machine.
func ofKinds(read reader) (map[string][]byte, error) {
	const schema, queries = "src/query/schema.json", "docs/queries.md"
	document, err := json.MarshalIndent(schemaOf(kinds.Catalog, fleet.Catalog, fleet.Dimensions), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	page, err := read(queries)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", queries, err)
	}
	tables := map[string]string{"kinds": tableOf(kinds.Catalog), "kinds of many pools": tableOf(fleet.Catalog)}
	for mark, table := range tables {
		if page, err = documents.Between(page, mark, table); err != nil {
			return nil, fmt.Errorf("%s: %w", queries, err)
		}
	}
	reference, err := read(skill)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", skill, err)
	}
	if reference, err = documents.Between(reference, "queries", referenceOf(kinds.Catalog)); err != nil {
		return nil, fmt.Errorf("%s: %w", skill, err)
	}
	return map[string][]byte{schema: append(document, '\n'), queries: page, skill: reference}, nil
}

// skill is the page for those who ask by machine. It is shipped with the command line, so it links to no other page.
const skill = "docs/agents/SKILL.md"

// units are Grafana's names of units as the page writes them.
var units = map[string]string{query.Count: "number", query.Percent: "%", query.Hours: "h", query.Seconds: "s",
	query.GPUHours: "GPU h", query.Share: "0–1"}

// gpuFilters stands for the filters of GPUs in the page's tables.
const gpuFilters = "GPUs"

// referenceOf describes each query type: its views with their groupings, filters and options, and its metrics. At the
// end come groupings and options with their values.
func referenceOf(c query.Catalog) string {
	var page strings.Builder
	fmt.Fprintf(&page, "Filters of *%s*: %s.\n", gpuFilters, codes(query.GPUFilters))
	groupings, options := object[string]{}, object[string]{}
	for i := range c {
		k := &c[i]
		fmt.Fprintf(&page, "\n### `%s`: %s\n\n| view | answer | groupBy | filter | options |\n|---|---|---|---|---|\n", k.Name,
			k.Description)
		for _, v := range k.Views {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", v.Name, v.Description, listed(v.GroupBy), filtersOf(v),
				listed(v.Options))
			for _, g := range v.GroupBy {
				groupings.set(g, k.Column(&query.View{}, g).Description)
			}
			for _, name := range v.Options {
				options.set(name, optionOf(name))
			}
		}
		fmt.Fprint(&page, "\n| metric | unit | meaning |\n|---|---|---|\n")
		for _, name := range schema.Metrics(k) {
			column := schema.Metric(k, name)
			fmt.Fprintf(&page, "| `%s` | %s | %s |\n", name, units[column.Unit], column.Description)
		}
	}
	fmt.Fprint(&page, "\n### Groupings\n\n| groupBy | rows for each | values |\n|---|---|---|\n")
	for _, g := range groupings {
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", g.name, g.value, valuesOf(g.name))
	}
	fmt.Fprint(&page, "\n### Options\n\n| option | meaning |\n|---|---|\n")
	for _, o := range options {
		fmt.Fprintf(&page, "| `%s` | %s |\n", o.name, o.value)
	}
	return page.String()
}

// filtersOf are the fields of a view's filter; those of GPUs, if all are there, in one word.
func filtersOf(v query.View) string {
	own := v.Filters
	if !slices.ContainsFunc(query.GPUFilters, func(f string) bool { return !slices.Contains(own, f) }) {
		own = slices.DeleteFunc(slices.Clone(own), func(f string) bool { return slices.Contains(query.GPUFilters, f) })
		return strings.Join(append([]string{"*" + gpuFilters + "*"}, own...), ", ")
	}
	return listed(own)
}

// valuesOf are the values of a grouping, if they are few and fixed: as a filter has them, with what tables show.
func valuesOf(name string) string {
	for _, g := range query.Groupings {
		if g.Column.Name != name {
			continue
		}
		values := slices.Clone(g.Values)
		for i, value := range values {
			if shown := g.Shown[value]; shown != "" && shown != value {
				values[i] = "`" + value + "` (" + shown + ")"
			} else {
				values[i] = "`" + value + "`"
			}
		}
		return strings.Join(values, ", ")
	}
	return ""
}

// optionOf describes an option of queries, and lists its values if they are fixed.
func optionOf(name string) string {
	description, values := schema.Option(name)
	if len(values) > 0 {
		description += ": " + codes(values)
	}
	return description
}

func codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

func listed(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return strings.Join(names, ", ")
}
