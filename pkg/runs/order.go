package runs

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// Sort sorts items by a time that each has, ascending; those with the same time keep their order.
func Sort[T any](items []*T, by func(*T) pool.Micros) {
	type keyed struct {
		key  pool.Micros
		from int32
		item *T
	}
	sorted := make([]keyed, len(items)) // comparing keys in place is quicker than asking each item again
	for i, item := range items {
		sorted[i] = keyed{by(item), int32(i), item}
	}
	slices.SortFunc(sorted, func(x, y keyed) int { return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.from, y.from)) })
	for i := range sorted {
		items[i] = sorted[i].item
	}
}
