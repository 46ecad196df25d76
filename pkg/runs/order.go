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
	}
	keys := make([]keyed, len(items)) // comparing them side by side is quicker than asking the items again and again
	for i, item := range items {
		keys[i] = keyed{by(item), int32(i)}
	}
	slices.SortFunc(keys, func(x, y keyed) int {
		if x.key != y.key {
			return cmp.Compare(x.key, y.key)
		}
		return int(x.from - y.from)
	})
	unsorted := slices.Clone(items)
	for i, k := range keys {
		items[i] = unsorted[k.from]
	}
}
