package aggregate

import (
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/query"
)

// Filter is a query's filter of things that have keys. It is safe for concurrent use.
type Filter []test

// test is the part of a filter about one grouping.
type test struct {
	by     query.Grouping
	passes func(value uint32) bool
	known  []atomic.Int32 // by value: 1 if it passes, −1 if it does not, 0 if that is not known yet
}

// NewFilter returns the filter of a plan. names are the texts of symbols.
func NewFilter(p *query.Plan, names []string) (f Filter) {
	const others = 1024 // more than the values that are no symbols
	for g := range query.Grouping(query.NumGroupings) {
		if p.Select.All(g) {
			continue
		}
		f = append(f, test{by: g, known: make([]atomic.Int32, len(names)+others), passes: func(value uint32) bool {
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
		if !f[i].keeps(k[f[i].by]) {
			return false
		}
	}
	return true
}

func (t *test) keeps(value uint32) bool {
	if int(value) >= len(t.known) {
		return t.passes(value)
	}
	known := &t.known[value]
	if known.Load() == 0 {
		if t.passes(value) {
			known.Store(1)
		} else {
			known.Store(-1)
		}
	}
	return known.Load() > 0
}
