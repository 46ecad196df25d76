package schema

import (
	"slices"

	"github.com/chtc/gpureports/pkg/query"
)

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
