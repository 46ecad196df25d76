package months

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// block is the rows of one timestamp that are together in a file.
type block struct {
	time     pool.Micros
	number   int64              // of its first row
	ahead    snapshots.Oddities // of the rows ahead of it
	source   int                // in the order of the files
	order    int                // of reading
	rows     []uint32           // of the reading's table, in file order
	usage    []float64          // parallel to rows, if requested
	repeated bool               // its timestamp is ambiguous between two times

	dataSlots bool // rows of data slots were left out
}

// union is how soon after the first run other runs of the collector must follow to form one snapshot with it
// (methodology section 1).
const union = pool.Minute

// united is the blocks of one snapshot.
type united struct {
	time   pool.Micros
	blocks []block // in file order
}

// unite sorts blocks into snapshots, ascending by time.
func unite(blocks []block) (all []united) {
	slices.SortStableFunc(blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.source, b.source), cmp.Compare(a.order, b.order))
	})
	for i := 0; i < len(blocks); {
		end := i + 1
		for end < len(blocks) && blocks[end].time-blocks[i].time < union {
			end++
		}
		u := united{blocks[i].time, blocks[i:end:end]}
		slices.SortStableFunc(u.blocks, func(a, b block) int {
			return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.order, b.order))
		})
		all = append(all, u)
		i = end
	}
	return all
}

// join puts the rows of the blocks together.
func (u *united) join() snapshots.Snapshot {
	joined := snapshots.Snapshot{Time: u.time}
	for _, b := range u.blocks {
		joined.Rows, joined.Usage = append(joined.Rows, b.rows...), append(joined.Usage, b.usage...)
	}
	return joined
}

// mark is where a reading of the day can be resumed with this snapshot; "" if it is in two sources.
func (u *united) mark(last int) string {
	begin := mark{Time: u.time}
	for i, b := range u.blocks {
		if b.source < last {
			return ""
		}
		if i == 0 || b.number < begin.Number {
			begin.Number, begin.Ahead = b.number, b.ahead
		}
	}
	return text(begin)
}
