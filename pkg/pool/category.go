// Package pool defines the terms of the domain (methodology sections 2, 3 and 5), by the standard library only.
package pool

import "slices"

// Category is one of the six categories of methodology section 3, in their order.
type Category uint8

const (
	PriorityResearcher Category = iota
	PriorityCHTC
	Shared
	BackfillResearcher
	BackfillCHTC
	BackfillOpen
	Categories int = iota // their number
)

var categoryNames = [Categories]struct{ key, name string }{
	{"Priority-ResearcherOwned", "Prioritized (Researcher Owned)"},
	{"Priority-CHTCOwned", "Prioritized (CHTC Owned)"},
	{"Shared", "Open Capacity"},
	{"Backfill-ResearcherOwned", "Backfill (Researcher Owned)"},
	{"Backfill-CHTCOwned", "Backfill (CHTC Owned)"},
	{"Backfill-OpenCapacity", "Backfill (Open Capacity)"},
}

// Key is the category's key in filters and field configuration.
func (c Category) Key() string { return categoryNames[c].key }

// String is the category's display name.
func (c Category) String() string { return categoryNames[c].name }

// Side is the side whose rows the category counts.
func (c Category) Side() Side {
	if c >= BackfillResearcher {
		return Backfill
	}
	return Primary
}

// ParseCategory finds a category by key or display name.
func ParseCategory(text string) (Category, bool) {
	for i, n := range categoryNames {
		if text == n.key || text == n.name {
			return Category(i), true
		}
	}
	return 0, false
}

// CategoryOf classifies a row of a machine's side: a primary one by the machine's entry in chtc_owned, otherwise by the
// row's own projects; a backfill one by the machine's ownership.
func CategoryOf(side Side, o Ownership, hasProject bool) Category {
	switch {
	case side == Backfill:
		return [...]Category{ResearcherOwned: BackfillResearcher, CHTCOwned: BackfillCHTC, OpenCapacity: BackfillOpen}[o]
	case o == CHTCOwned:
		return PriorityCHTC
	case hasProject:
		return PriorityResearcher
	}
	return Shared
}

// Ownership says who owns a machine on one UTC day (methodology section 2).
type Ownership uint8

const (
	ResearcherOwned Ownership = iota
	CHTCOwned
	OpenCapacity
	Ownerships int = iota // their number
)

var ownershipNames = [Ownerships]string{"Researcher Owned", "CHTC Owned", "Open Capacity"}

func (o Ownership) String() string { return ownershipNames[o] }

// ParseOwnership finds an ownership by its name.
func ParseOwnership(text string) (Ownership, bool) {
	i := slices.Index(ownershipNames[:], text)
	return Ownership(max(i, 0)), i >= 0
}

// MachineType is the coarser split of backfill statistics: Priority (owned by anybody) or Shared.
func (o Ownership) MachineType() string {
	if o == OpenCapacity {
		return "Shared"
	}
	return "Priority"
}
