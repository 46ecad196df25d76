package runs

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// Sort sorts items by a time that each has, ascending; those with the same time keep their order.
func Sort[T any](items []*T, by func(*T) pool.Micros) {
	unsorted := slices.Clone(items)
	for i, from := range Order(len(items), func(i int) pool.Micros { return by(unsorted[i]) }) {
		items[i] = unsorted[from]
	}
}

// Order returns the numbers of n items by a time that each has, ascending; those with the same time keep their order.
func Order(n int, by func(i int) pool.Micros) []int32 {
	type keyed struct {
		key  pool.Micros
		from int32
	}
	keys := make([]keyed, n) // comparing them side by side is quicker than asking the items again and again
	for i := range keys {
		keys[i] = keyed{by(i), int32(i)}
	}
	slices.SortFunc(keys, func(x, y keyed) int {
		if x.key != y.key {
			return cmp.Compare(x.key, y.key)
		}
		return int(x.from - y.from)
	})
	order := make([]int32, n)
	for i, k := range keys {
		order[i] = k.from
	}
	return order
}
