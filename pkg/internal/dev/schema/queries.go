package schema

import (
	"fmt"
	"slices"
	"strings"

	sdkapi "github.com/grafana/grafana-plugin-sdk-go/experimental/apis/datasource/v0alpha1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/chtc/gpureports/pkg/fleet"
	"github.com/chtc/gpureports/pkg/query"
)

// queries describes each kind as a query type, and gives an example of each of its views.
func queries(catalog query.Catalog) (*sdkapi.QueryTypeDefinitionList, *sdkapi.QueryExamples) {
	types := &sdkapi.QueryTypeDefinitionList{
		TypeMeta: sdkapi.TypeMeta{Kind: "QueryTypeDefinitionList", APIVersion: "datasource.grafana.app/" + Version},
	}
	examples := &sdkapi.QueryExamples{}
	for i := range catalog {
		k := &catalog[i]
		schema := object(k.Description, properties(withFleet(*k)))
		schema.Required = []string{"queryType"}
		types.Items = append(types.Items, sdkapi.QueryTypeDefinition{
			ObjectMeta: sdkapi.ObjectMeta{Name: k.Name},
			Spec: sdkapi.QueryTypeDefinitionSpec{
				Description:    k.Description,
				Discriminators: sdkapi.NewDiscriminators("queryType", k.Name),
				Schema:         sdkapi.JSONSchema{Spec: &schema},
			},
		})
		for _, v := range k.Views {
			examples.Examples = append(examples.Examples, sdkapi.QueryExample{
				Name: k.Label + ": " + v.Label, QueryType: k.Name, Description: v.Description,
				SaveModel: sdkapi.AsUnstructured(query.Model{QueryType: k.Name, View: v.Name, Version: query.Version}),
			})
		}
	}
	return types, examples
}

// withFleet adds to a kind the views that only data sources of many pools know.
func withFleet(k query.Kind) *query.Kind {
	ofMany := fleet.Catalog.Kind(k.Name)
	if ofMany == nil {
		return &k
	}
	k.Views, k.Columns = slices.Clone(k.Views), ofMany.Columns
	for _, v := range ofMany.Views {
		if k.View(v.Name) == nil {
			k.Views = append(k.Views, v)
		}
	}
	return &k
}

// properties are the fields of a kind's queries. An empty text is the default everywhere.
func properties(k *query.Kind) map[string]spec.Schema {
	var views []string
	p := map[string]spec.Schema{
		"queryType": word(k.Label, []string{k.Name}),
		"filter":    object("Chooses GPUs, and results; an empty list is all", filter(k)),
		"version":   whole("Version of the query model"),
	}
	for _, v := range k.Views {
		views = append(views, v.Name+": "+v.Description)
		for _, option := range v.Options {
			p[option] = options[option]
		}
	}
	p["view"] = word(strings.Join(views, "; "), append(names(k.Views), ""))
	if groupings := of(k, func(v *query.View) []string { return v.GroupBy }); len(groupings) > 0 {
		p["groupBy"] = list(described(k, "Groupings, in order; an empty list is none", groupings), word("", groupings))
	}
	if metrics := Metrics(k); len(metrics) > 0 {
		p["metrics"] = list(described(k, "Metrics; an empty list is all in tables, the first in series", metrics),
			word("", metrics))
	}
	return p
}

// hoursOrVariable is a number of hours, or a variable of a dashboard in its place.
var hoursOrVariable = spec.Schema{SchemaProps: spec.SchemaProps{
	AnyOf: []spec.Schema{*spec.Float64Property(), {SchemaProps: spec.SchemaProps{Type: []string{"string"}, Pattern: `^\$`}}},
}}

// options are the fields that only some views know.
var options = map[string]spec.Schema{
	"bucket": word("Length of a point; auto fits the panel, window is the whole time range",
		append(slices.Clone(query.BucketNames), "")),
	"timezone":            text("IANA name of the zone of buckets and hours; empty: the data source's"),
	"completeBucketsOnly": flag("Leaves out buckets that the time range cuts, or that still grow"),
	"includeOldDevices":   flag("Whether GPUs of older models count, too; they do unless false"),
	"totals":              flag("Whether the table ends with totals; it does unless exactly one metric is named"),
	"previous":            flag("Answers for the period of the same length that ends where the time range begins"),
	"last": text("Answers for this long up to now, such as 6h or 2d, whatever the time range; empty: for the time " +
		"range"),
	"duration":        word("What curves and periods measure", append(slices.Clone(query.Durations), "")),
	"jobHours":        list("Lengths of jobs in hours, or variables", hoursOrVariable),
	"overheadMinutes": *spec.Float64Property().WithDescription("What a checkpoint costs, in minutes; default 5"),
	"withinMinutes":   *spec.Float64Property().WithDescription("Minutes of withinPercent, 1 to 10,080; default 10"),
	"shortMinutes": *spec.Float64Property().WithDescription("Minutes within which a run fails at once, 1 to 1,440; " +
		"default 10"),
	"legend": text("Names of series: {{device}} or another grouping is replaced by its value, {{metric}} by the " +
		"metric; empty: the answer's own names"),
	"limit": whole(fmt.Sprintf("Most rows, series or frames, at most %d; 0: the view's own limit", query.MaxRows)),
}

// Option returns the description of a field that only some views know, and its values if they are fixed.
func Option(name string) (description string, values []string) {
	o := options[name]
	for _, value := range o.Enum {
		if text, ok := value.(string); ok && text != "" {
			values = append(values, text)
		}
	}
	return o.Description, values
}

// filter are the fields of the filter that a view of the kind knows.
func filter(k *query.Kind) map[string]spec.Schema {
	known := of(k, func(v *query.View) []string { return v.Filters })
	p := map[string]spec.Schema{}
	for _, w := range FilterWords {
		switch {
		case !slices.Contains(known, w.Name):
		case w.Name == "idle":
			p[w.Name] = flag(w.Description)
		default:
			p[w.Name] = list(w.Description+". A value, /a pattern/, or either with ! before it, which excludes",
				*spec.StringProperty())
		}
	}
	return p
}

// described is a description with the labels of the columns that can be named.
func described(k *query.Kind, what string, columns []string) string {
	for i, name := range columns {
		separator := "; "
		if i == 0 {
			separator = ". "
		}
		what += fmt.Sprintf("%s%s: %s", separator, name, Metric(k, name).Label)
	}
	return what
}

// of unites what the views of a kind know, those of many pools included.
func of(k *query.Kind, list func(*query.View) []string) (all []string) {
	views := k.Views
	if ofMany := fleet.Catalog.Kind(k.Name); ofMany != nil {
		views = slices.Concat(views, ofMany.Views)
	}
	for i := range views {
		for _, name := range list(&views[i]) {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

func names(views []query.View) (names []string) {
	for _, v := range views {
		names = append(names, v.Name)
	}
	return names
}

// Word is a word of the query model as people read it.
type Word struct {
	Name        string `json:"name"`
	Label       string `json:"label"`
	Description string `json:"description,omitempty"`
	Dimension   string `json:"dimension,omitempty"` // of a filter: that whose values it takes, "" none
}

// FilterWords are the fields of the filter, in their order.
var FilterWords = func() (words []Word) {
	for g := range query.Grouping(query.NumGroupings) {
		d := &query.Groupings[g]
		w := Word{d.Filter.Name, d.Filter.Label, d.Filter.Description, dimensionOf(d)}
		if g == query.ByPool { // the editor offers it first
			words = slices.Insert(words, 0, w)
		} else if w.Name != "" {
			words = append(words, w)
		}
	}
	return append(words, Word{"idle", "Idle only", "Only machines on which nothing was claimed on primary slots", ""})
}()

// DimensionWords are the dimensions of a fleet, of which a pool has all but the first, as people read them.
var DimensionWords = func() (words []Word) {
	for _, name := range append([]string{"pool"}, query.Dimensions...) {
		g, _ := query.GroupingOf(name)
		d := query.Groupings[g].Dimension
		words = append(words, Word{Name: name, Label: d.Label, Description: d.Description})
	}
	return words
}()

func dimensionOf(d *query.Declaration) string {
	if d.Dimension.Label == "" {
		return ""
	}
	return d.Name
}

// DurationWords are the durations as people read them.
var DurationWords = []Word{
	{Name: "tenure", Label: "Tenure", Description: "How long a GPU stays in the backfill pool, used or free"},
	{Name: "vacancy", Label: "Vacancy", Description: "How long a GPU stays free"},
}

// BucketWords are the words of the field `bucket` that are not lengths of time.
var BucketWords = []Word{
	{Name: "auto", Label: "Auto", Description: "Fits the panel; the whole time range in alert rules"},
	{Name: "window", Label: "Whole range", Description: "One value for the time range"},
}

// Metrics returns the metrics of all views of a kind, each once.
func Metrics(k *query.Kind) (names []string) {
	for i := range k.Views {
		for _, m := range k.Views[i].Metrics {
			if !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names
}

// Metric describes a metric as the first view that has it does.
func Metric(k *query.Kind, name string) query.Column {
	i := slices.IndexFunc(k.Views, func(v query.View) bool { return slices.Contains(v.Metrics, name) })
	if i < 0 {
		return k.Column(&query.View{}, name)
	}
	return k.Column(&k.Views[i], name)
}
