package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/internal/dev/schema"
	"github.com/chtc/gpureports/pkg/query"
)

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
