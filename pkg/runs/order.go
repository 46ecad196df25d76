package runs

import (
	"cmp"
	"math"
	"math/bits"
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
	order, times := make([]int32, n), make([]pool.Micros, n)
	least, most := pool.Micros(math.MaxInt64), pool.Micros(math.MinInt64)
	for i := range times {
		order[i], times[i] = int32(i), by(i)
		least, most = min(least, times[i]), max(most, times[i])
	}
	room := bits.Len(uint(n)) // for a number
	if bits.Len64(uint64(most-least)) > 64-room {
		slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(times[x], times[y]) })
		return order
	}
	keys := make([]uint64, n) // time and number side by side are sorted in half the time
	for i, t := range times {
		keys[i] = uint64(t-least)<<room | uint64(i)
	}
	slices.Sort(keys)
	for i, key := range keys {
		order[i] = int32(key & (1<<room - 1))
	}
	return order
}
