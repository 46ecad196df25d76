package aggregate

import "github.com/chtc/gpureports/pkg/query"

// Filter is a query's filter of things that have keys. It is safe for concurrent use.
type Filter []test

// test is the part of a filter about one grouping.
type test struct {
	by     query.Grouping
	passes func(value uint32) bool
}

// NewFilter returns the filter of a plan. names are the texts of symbols.
func NewFilter(p *query.Plan, names []string) (f Filter) {
	for g := range query.Grouping(query.NumGroupings) {
		if p.Select.All(g) {
			continue
		}
		f = append(f, test{g, func(value uint32) bool {
			return (g != query.ByTakenOver || value != 0) && p.Select.Match(g, text(g, value, p.Env.Lists, names))
		}})
	}
	return f
}

// Split divides the filter into the parts about some groupings, and about the others.
func (f Filter) Split(belongs func(query.Grouping) bool) (those, others Filter) {
	for i := range f {
		if belongs(f[i].by) {
			those = append(those, f[i])
		} else {
			others = append(others, f[i])
		}
	}
	return those, others
}

// Keeps reports whether a thing passes.
func (f Filter) Keeps(k *Key) bool {
	for i := range f {
		if !f[i].passes(k[f[i].by]) {
			return false
		}
	}
	return true
}
