package query

import (
	"github.com/chtc/gpureports/pkg/pool"
)

// Schema is the query model as a document, the one that the front end reads (src/query/schema.json).
func Schema() any {
	type kind struct {
		DefaultView    string          `json:"defaultView"`
		DefaultGroupBy []string        `json:"defaultGroupBy"`
		Views          map[string]View `json:"views"`
	}
	type category struct {
		Key  string `json:"key"`
		Name string `json:"name"`
	}
	s := struct {
		Version    int             `json:"version"`
		Kinds      map[string]kind `json:"kinds"`
		Filters    []string        `json:"filters"`
		Dimensions []string        `json:"dimensions"`
		Buckets    []string        `json:"buckets"`
		Categories []category      `json:"categories"`
		Ownerships []string        `json:"ownerships"`
		Slots      []string        `json:"slots"`
		Durations  []string        `json:"durations"`
	}{
		Version: Version, Kinds: map[string]kind{}, Dimensions: Dimensions, Buckets: BucketNames,
		Ownerships: OwnershipNames(), Slots: fixed["slots"], Durations: Durations,
	}
	for _, k := range Kinds {
		views := map[string]View{}
		for _, v := range k.Views {
			for _, list := range []*[]string{&v.GroupBy, &v.Metrics, &v.DefaultMetrics, &v.Filters, &v.Options} {
				*list = append([]string{}, *list...)
			}
			views[v.Name] = v
		}
		s.Kinds[k.Name] = kind{k.Views[0].Name, append([]string{}, k.DefaultGroupBy...), views}
	}
	for _, f := range new(Filter).fields() {
		s.Filters = append(s.Filters, f.name)
	}
	s.Filters = append(s.Filters, "idle")
	for c := range pool.Category(pool.Categories) {
		s.Categories = append(s.Categories, category{c.Key(), c.String()})
	}
	return s
}
