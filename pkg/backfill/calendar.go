package backfill

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// calendar says which bucket each snapshot of the window is in.
type calendar struct {
	first, end int     // the window's snapshots
	bucket     []int32 // of each of them
	begin      []int32 // the first snapshot of each bucket; one more than there are buckets
}

func newCalendar(times []pool.Micros, first, end int, buckets query.Buckets) *calendar {
	c := &calendar{first: first, end: end, bucket: make([]int32, end-first), begin: make([]int32, buckets.Len()+1)}
	b := 0
	for i := range c.bucket {
		for buckets.Starts[b+1] <= times[first+i] {
			b++
			c.begin[b] = int32(first + i)
		}
		c.bucket[i] = int32(b)
	}
	c.begin[0] = int32(first)
	for b++; b < len(c.begin); b++ {
		c.begin[b] = int32(end)
	}
	return c
}

// snapshots is the number of the window's snapshots in a bucket.
func (c *calendar) snapshots(bucket int) int { return int(c.begin[bucket+1] - c.begin[bucket]) }

// left is how many snapshots of its bucket there are from a snapshot on.
func (c *calendar) left(snapshot int) int32 {
	return c.begin[c.bucket[snapshot-c.first]+1] - int32(snapshot)
}
