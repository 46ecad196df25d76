package counts

import (
	"crypto/sha256"
	"unsafe"
	"weak"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The counts of days are kept, so that a repeated or moved panel adds up a few numbers a day, including those of the two
// days in which a window begins and ends: their counts change only when it passes a snapshot. Days never change: one
// that grows or is read again is another one.

// memoKey names the count of a day.
type memoKey struct {
	day         weak.Pointer[timeline.Day]
	first, last uint16 // its snapshots in slices of its own
	question    [sha256.Size]byte
}

// Bytes implements stores.Figures.
func (p *part) Bytes() int {
	return int(unsafe.Sizeof(memoKey{})+unsafe.Sizeof(*p)) + len(p.groups)*int(unsafe.Sizeof(aggregate.Key{})) +
		8*cap(p.sums)
}

// partOf returns a day's count, counted now if it is not known.
func partOf(memo *stores.Memo, question [sha256.Size]byte, d *timeline.DaySlices, bucketOf []int32,
	classify *Classifier) *part {
	if d.First > d.Last {
		return countDay(d, bucketOf, classify)
	}
	key := memoKey{day: weak.Make(d.Day), question: question}
	key.first, key.last = d.Own()
	known, _ := stores.Remember(memo, key, func() (*part, error) { return countDay(d, bucketOf, classify), nil })
	here := *known
	here.first = int(bucketOf[d.First]) // buckets are anchored to the calendar: only their numbers are the window's
	return &here
}
