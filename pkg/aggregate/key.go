package aggregate

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Key is what a thing is counted, filtered and grouped by: the value of each grouping, as a symbol or a small number,
// so that keys compare and hash quickly. Groupings that do not matter are zero.
type Key [query.NumGroupings]uint32

// KeyOf returns the key of a GPU at a place, by its slot of the backfill pool.
func KeyOf(p timeline.Place) Key {
	k := Key{query.ByDevice: uint32(p.Device), query.ByMachine: uint32(p.Machine), query.ByMemory: uint32(p.Memory),
		query.ByOwnership: uint32(p.Ownership), query.ByTier: uint32(p.Tier)}
	if p.Ownership == pool.OpenCapacity {
		k[query.ByMachineType] = 1
	}
	k.SetRow(p.Ownership, pool.Backfill, 0, 0)
	return k
}

// SetRow sets what a row adds to the key of its GPU, whose machine has an owner: its side, projects and user.
func (k *Key) SetRow(owner pool.Ownership, side pool.Side, project, user timeline.Symbol) {
	k[query.ByCategory], k[query.BySlots] = uint32(pool.CategoryOf(side, owner, project != 0)), uint32(side)
	k[query.ByProject], k[query.ByUser] = uint32(project), uint32(user)
}

// Within returns the values of some groupings; the others are zero.
func (k Key) Within(by []query.Grouping) (within Key) {
	for _, g := range by {
		within[g] = k[g]
	}
	return within
}

// Text returns the value of a grouping, as it is stored; "" if there is none. names are the texts of symbols.
func (k Key) Text(g query.Grouping, lists pool.Lists, names []string) string {
	return text(g, k[g], lists, names)
}

func text(g query.Grouping, value uint32, lists pool.Lists, names []string) string {
	d := &query.Groupings[g]
	switch {
	case g == query.ByTakenOver && value == 0, g == query.ByPool:
		return ""
	case d.Text != nil:
		return d.Text(value, lists, names)
	case d.Values != nil:
		return d.Values[value]
	}
	return names[value]
}

// Texts returns the values of groupings, as answers to a plan show them. names are the texts of symbols.
func (k Key) Texts(p *query.Plan, by, names []string) []string {
	texts := make([]string, len(by))
	for i, name := range by {
		// no user has no text, an unnamed user has Unknown
		if g, known := query.GroupingOf(name); known && (g != query.ByTakenOver || k[g] != 0) {
			texts[i] = p.Shown(name, k.Text(g, p.Env.Lists, names))
		}
	}
	return texts
}

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
func (f Filter) Keeps(k Key) bool {
	for i := range f {
		if !f[i].passes(k[f[i].by]) {
			return false
		}
	}
	return true
}
