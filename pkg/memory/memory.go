// Package memory keeps values in memory under a byte budget.
package memory

import (
	"context"
	"iter"
	"math"

	"github.com/maypok86/otter/v2"
)

// Cache keeps values under a byte budget: those that are requested often and recently stay. It is safe for concurrent
// use. It is an interface because each package that sees otter's generic type compiles all of it again, half of the
// code of most packages.
type Cache[K comparable, V any] interface {
	GetIfPresent(key K) (V, bool)
	// Get returns the value of a key, which it loads if there is none; concurrent calls share one load.
	Get(ctx context.Context, key K, loader otter.Loader[K, V]) (V, error)
	Set(key K, value V) (V, bool)
	All() iter.Seq2[K, V]
	Invalidate(key K) (V, bool)
	InvalidateAll()
	GetMaximum() uint64   // bytes
	WeightedSize() uint64 // bytes
}

// New returns an empty cache bounded to a number of bytes, at least 1; size estimates those of an entry.
func New[K comparable, V any](bytes uint64, size func(K, V) int) Cache[K, V] {
	return otter.Must(&otter.Options[K, V]{
		MaximumWeight: max(bytes, 1),
		Weigher:       func(key K, value V) uint32 { return uint32(min(size(key, value), math.MaxUint32)) },
		Executor:      func(maintain func()) { maintain() },
	})
}
