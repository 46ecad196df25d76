// Package usage keeps the column GPUsAverageUsage of a UTC day (methodology section 13). Because it changes with every
// snapshot, while a segment's spans do not, it has a block of its own, which is read and cached only for the questions
// that need it.
//
// A claim's value in a snapshot is stored once, with the first of its GPUs. Values are kept to 1e-9 of a GPU, as
// differences to the value before, in 3 to 4 bytes each.
package usage

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/pool"
)

// unit is the unit of stored values: billionths of a GPU.
const unit = 1e9

// most is the largest value that is kept; a slot has fewer GPUs.
const most = 1e6

// Place is the place of a claim in a segment: a GPU's number in the day, and a side.
type Place struct {
	GPU  int
	Side pool.Side
}

func (p Place) index() int { return 2*p.GPU + int(p.Side) }

// Further is the value of a claim that nowhere gives its side's state: a GPU's further claim (timeline.Status.Extra).
type Further struct {
	Place
	Snapshot int
	Claim    int // index among the status's further claims
	Usage    float64
}

// Block is the usage of one day. It is never changed.
type Block struct {
	number    uint64
	snapshots int
	offsets   []uint32 // of the code of each place; one more than there are
	code      []byte
	further   []Further // ascending by snapshot, place and claim
}

// A place's code is a sequence of unsigned varints. An odd one is a value: half of it is the difference to the value
// before, zigzag encoded. An even one skips half as many snapshots. Snapshots after the end of the code have no value.

// Snapshots is the number of the day's snapshots.
func (b *Block) Snapshots() int { return b.snapshots }

// blocks is the number of blocks so far.
var blocks atomic.Uint64

// Number identifies a block within this process.
func (b *Block) Number() uint64 { return b.number }

// Empty reports whether no claim reported a value.
func (b *Block) Empty() bool { return len(b.code) == 0 && len(b.further) == 0 }

// Bytes is the live memory of the block.
func (b *Block) Bytes() int { return cap(b.code) + 4*cap(b.offsets) + 48*cap(b.further) + 96 }

// Further returns the values of further claims. The slice must not be changed.
func (b *Block) Further() []Further { return b.further }

// Read writes a place's values into those of the day's snapshots; NaN is none. It reports whether there is any.
func (b *Block) Read(p Place, into []float64) bool {
	for i := range into {
		into[i] = math.NaN()
	}
	code := b.code[b.offsets[p.index()]:b.offsets[p.index()+1]]
	any := false
	at, value := 0, int64(0)
	for len(code) > 0 {
		token, n := binary.Uvarint(code)
		code = code[n:]
		if token&1 == 0 {
			at += int(token >> 1)
			continue
		}
		value += unzigzag(token >> 1)
		into[at] = float64(value) / unit
		any = true
		at++
	}
	return any
}

func zigzag(x int64) uint64   { return uint64(x<<1) ^ uint64(x>>63) }
func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// Builder makes a block, snapshot by snapshot.
type Builder struct {
	snapshots int
	series    []series
	further   []Further
}

// series is the code of a place in the making.
type series struct {
	code []byte
	next int // snapshot
	last int64
}

// NewBuilder returns a builder for a day with the given number of GPUs.
func NewBuilder(gpus int) *Builder { return &Builder{series: make([]series, 2*gpus)} }

// Resume takes over the values of an earlier block's snapshots before the given one. moved are the numbers of its GPUs
// now.
func (b *Builder) Resume(earlier *Block, before int, moved []int) {
	values := make([]float64, earlier.snapshots)
	for g, now := range moved {
		for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
			if !earlier.Read(Place{g, side}, values) {
				continue
			}
			for s, v := range values[:before] {
				if !math.IsNaN(v) {
					b.Set(s, Place{now, side}, v)
				}
			}
		}
	}
	for _, f := range earlier.further {
		if f.Snapshot < before {
			f.GPU = moved[f.GPU]
			b.further = append(b.further, f)
		}
	}
	b.snapshots = before
}

// Snapshot begins the next snapshot, and returns its number.
func (b *Builder) Snapshot() int {
	b.snapshots++
	return b.snapshots - 1
}

// Set notes a place's value in a snapshot. The snapshots of a place come in ascending order.
func (b *Builder) Set(snapshot int, p Place, usage float64) {
	s := &b.series[p.index()]
	if n := snapshot - s.next; n > 0 {
		s.code = binary.AppendUvarint(s.code, uint64(n)<<1)
	}
	value := int64(math.Round(min(usage, most) * unit))
	s.code = binary.AppendUvarint(s.code, zigzag(value-s.last)<<1|1)
	s.next, s.last = snapshot+1, value
}

// SetFurther notes the value of a further claim.
func (b *Builder) SetFurther(f Further) {
	f.Usage = math.Round(min(f.Usage, most)*unit) / unit
	b.further = append(b.further, f)
}

// Block returns the finished block.
func (b *Builder) Block() *Block {
	size := 0
	for i := range b.series {
		size += len(b.series[i].code)
	}
	block := &Block{number: blocks.Add(1), snapshots: b.snapshots,
		offsets: make([]uint32, 0, len(b.series)+1), code: make([]byte, 0, size),
		further: slices.Clip(b.further)}
	for i := range b.series {
		block.offsets = append(block.offsets, uint32(len(block.code)))
		block.code = append(block.code, b.series[i].code...)
	}
	block.offsets = append(block.offsets, uint32(len(block.code)))
	slices.SortFunc(block.further, func(x, y Further) int {
		return cmp.Or(cmp.Compare(x.Snapshot, y.Snapshot), cmp.Compare(x.index(), y.index()), cmp.Compare(x.Claim, y.Claim))
	})
	return block
}
