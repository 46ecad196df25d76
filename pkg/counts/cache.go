package counts

import (
	"crypto/sha256"
	"unsafe"
	"weak"

	"github.com/maypok86/otter/v2"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Cache keeps the counts of days, so that a repeated or moved panel adds up a few numbers a day, including those of the
// two days in which a window begins and ends: their counts change only when it passes a snapshot. Days never change:
// one that grows or is read again is another one, and the parts of days that are gone age out.
type Cache struct{ parts *otter.Cache[memoKey, *part] }

// NewCache returns an empty cache that is bounded to the given number of bytes.
func NewCache(bytes uint64) *Cache {
	return &Cache{otter.Must(&otter.Options[memoKey, *part]{
		MaximumWeight: max(bytes, 1),
		Weigher: func(_ memoKey, p *part) uint32 {
			return uint32(unsafe.Sizeof(memoKey{})) + uint32(unsafe.Sizeof(*p)) +
				uint32(len(p.groups))*uint32(unsafe.Sizeof(aggregate.Key{})) + 8*uint32(cap(p.sums))
		},
		Executor: func(maintain func()) { maintain() },
	})}
}

// Bytes is the estimated size of the cached counts.
func (c *Cache) Bytes() uint64 { return c.parts.WeightedSize() }

// Close forgets everything.
func (c *Cache) Close() { c.parts.InvalidateAll() }

type memoKey struct {
	day         weak.Pointer[timeline.Day]
	first, last uint16 // its snapshots in slices of its own
	question    [sha256.Size]byte
}

// part returns a day's count, counted now if it is not known.
func (c *Cache) part(question [sha256.Size]byte, d *timeline.DaySlices, bucketOf []int32, classify *Classifier) *part {
	if d.First > d.Last {
		return countDay(d, bucketOf, classify)
	}
	key := memoKey{day: weak.Make(d.Day), question: question}
	key.first, key.last = d.Own()
	known, ok := c.parts.GetIfPresent(key)
	if !ok {
		known = countDay(d, bucketOf, classify)
		c.parts.Set(key, known)
	}
	here := *known
	here.first = int(bucketOf[d.First]) // buckets are anchored to the calendar: only their numbers are the window's
	return &here
}
