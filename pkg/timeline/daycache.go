package timeline

import (
	"context"
	"runtime"
	"sync"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// dayCache keeps values that are derived from the rows of one UTC day: in memory, in the cache directory, and in a
// bucket that servers share. The latter two only save time: no answer depends on them. It is safe for concurrent use.
type dayCache struct {
	source snapshots.Source
	disk   *segcache.Disk   // nil without a cache directory
	shared *segcache.Shared // nil without a bucket

	memory *otter.Cache[segcache.Blob, value]
	locks  sync.Map            // segcache.Blob → *semaphore.Weighted, held while a value is looked up, derived or checked
	slots  *semaphore.Weighted // limits how many values are decoded or derived at the same time
}

// newDayCache returns an empty cache of maxBytes for values that are derived from a source. disk and shared may be nil.
func newDayCache(source snapshots.Source, maxBytes int64, disk *segcache.Disk, shared *segcache.Shared) *dayCache {
	return &dayCache{source: source, disk: disk, shared: shared,
		slots: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0))),
		memory: otter.Must(&otter.Options[segcache.Blob, value]{
			MaximumWeight: uint64(maxBytes),
			Weigher:       func(_ segcache.Blob, e value) uint32 { return uint32(e.Bytes()) },
			Executor:      func(maintain func()) { maintain() },
		})}
}

// key returns the key of a day's rows, which may have to be read for it.
func (c *dayCache) key(ctx context.Context, state snapshots.State, date int32) (snapshots.Key, error) {
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return snapshots.Key{}, err
	}
	defer c.slots.Release(1)
	return state.Key(ctx, date)
}
