package query

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// Texts of groups that are no values of their own; they stand last.
const (
	Unknown = "Unknown" // without a value
	Other   = "Other"   // the rest
)

// fixed are the groupings whose values have an order of their own.
var fixed = map[string][]string{
	"category":    categoryNames(),
	"slots":       {pool.Primary.String(), pool.Backfill.String()},
	"memory":      {"<48GB", "48GB", "80GB", ">80GB"},
	"gpus":        GPUCounts,
	"gpuMemory":   {"any", "<48GB", "48GB", "80GB", ">80GB"},
	"ownership":   OwnershipNames(),
	"machineType": {"Priority", "Shared"},
}

func categoryNames() (names []string) {
	for c := range pool.Category(pool.Categories) {
		names = append(names, c.String())
	}
	return names
}

// CompareValues orders two values of a grouping: categories, slots, memories, ownerships in their own order, everything
// else bytewise; Unknown, then Other, last.
func CompareValues(grouping, a, b string) int {
	if a == b {
		return 0
	}
	if c := cmp.Compare(late(a), late(b)); c != 0 {
		return c
	}
	if order := fixed[grouping]; order != nil {
		if c := cmp.Compare(slices.Index(order, a), slices.Index(order, b)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a, b)
}

func late(value string) int {
	switch value {
	case Unknown:
		return 1
	case Other:
		return 2
	}
	return 0
}

// CompareGroups orders two groups by the groupings in turn.
func CompareGroups(groupings, a, b []string) int {
	for i, g := range groupings {
		if c := CompareValues(g, a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}
