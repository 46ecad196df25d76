package timeline

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"github.com/chtc/gpureports/pkg/pool"
)

const (
	usageUnit = 1e9 // of stored values: billionths of a GPU
	mostUsage = 1e6 // the largest value that is kept; a slot has fewer GPUs
)

// UsagePlace is the place of a claim in a segment: a GPU's number in the day, and a side.
type UsagePlace struct {
	GPU  int
	Side pool.Side
}

func (p UsagePlace) index() int { return 2*p.GPU + int(p.Side) }

// FurtherUsage is the value of a claim that nowhere gives its side's state: a GPU's further claim (Status.Extra).
type FurtherUsage struct {
	UsagePlace
	Snapshot int
	Claim    int // index among the status's further claims
	Usage    float64
}

// Usage is the column GPUsAverageUsage of a UTC day (methodology section 13). Because it changes with every snapshot,
// while a segment's spans do not, it is read and cached apart, only for the questions that need it. It is never
// changed.
//
// A claim's value in a snapshot is stored once, with the first of its GPUs. Values are kept to 1e-9 of a GPU, as
// differences to the value before, in 3 to 4 bytes each.
type Usage struct {
	number    uint64
	gpus      []GPU // by their numbers in the day
	snapshots int
	offsets   []uint32 // of the code of each place; one more than there are
	code      []byte
	further   []FurtherUsage // ascending by snapshot, place and claim
}

// A place's code is a sequence of unsigned varints. An odd one is a value: half of it is the difference to the value
// before, zigzag encoded. An even one skips half as many snapshots. Snapshots after the end of the code have no value.

// usages is the number of the days' usages so far.
var usages atomic.Uint64

// Number identifies the usage of a day within this process.
func (u *Usage) Number() uint64 { return u.number }

// Empty reports whether no claim reported a value.
func (u *Usage) Empty() bool { return len(u.code) == 0 && len(u.further) == 0 }

// Bytes is the live memory of the usage.
func (u *Usage) Bytes() int {
	return cap(u.code) + 4*cap(u.offsets) + 4*cap(u.gpus) + 48*cap(u.further) + 120
}

// Further returns the values of further claims. The slice must not be changed.
func (u *Usage) Further() []FurtherUsage { return u.further }

// Read writes a place's values into those of the day's snapshots; NaN is none. It reports whether there is any.
func (u *Usage) Read(p UsagePlace, into []float64) bool {
	for i := range into {
		into[i] = math.NaN()
	}
	code := u.code[u.offsets[p.index()]:u.offsets[p.index()+1]]
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
		into[at] = float64(value) / usageUnit
		any = true
		at++
	}
	return any
}

func zigzag(x int64) uint64   { return uint64(x<<1) ^ uint64(x>>63) }
func unzigzag(x uint64) int64 { return int64(x>>1) ^ -int64(x&1) }

// usageBuilder makes the usage of a day, snapshot by snapshot.
type usageBuilder struct {
	gpus      []GPU
	snapshots int
	series    []series // of each place
	further   []FurtherUsage
}

// series is the code of a place in the making.
type series struct {
	code []byte
	next int // snapshot
	last int64
}

func newUsageBuilder(gpus []GPU) *usageBuilder {
	return &usageBuilder{gpus: gpus, series: make([]series, 2*len(gpus))}
}

// resume takes over the values of the day's earlier snapshots before the given one. index has the numbers of GPUs now.
func (b *usageBuilder) resume(earlier *Usage, before int, index map[GPU]int) {
	values := make([]float64, earlier.snapshots)
	for g, gpu := range earlier.gpus {
		now := index[gpu] // a day that only grew has it still
		for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
			if !earlier.Read(UsagePlace{g, side}, values) {
				continue
			}
			for s, v := range values[:before] {
				if !math.IsNaN(v) {
					b.set(s, UsagePlace{now, side}, v)
				}
			}
		}
	}
	for _, f := range earlier.further {
		if f.Snapshot < before {
			f.GPU = index[earlier.gpus[f.GPU]]
			b.further = append(b.further, f)
		}
	}
	b.snapshots = before
}

// snapshot begins the next snapshot, and returns its number.
func (b *usageBuilder) snapshot() int {
	b.snapshots++
	return b.snapshots - 1
}

// set notes a place's value in a snapshot. The snapshots of a place come in ascending order.
func (b *usageBuilder) set(snapshot int, p UsagePlace, usage float64) {
	s := &b.series[p.index()]
	if n := snapshot - s.next; n > 0 {
		s.code = binary.AppendUvarint(s.code, uint64(n)<<1)
	}
	value := int64(math.Round(min(usage, mostUsage) * usageUnit))
	s.code = binary.AppendUvarint(s.code, zigzag(value-s.last)<<1|1)
	s.next, s.last = snapshot+1, value
}

// setFurther notes the value of a further claim.
func (b *usageBuilder) setFurther(f FurtherUsage) {
	f.Usage = math.Round(min(f.Usage, mostUsage)*usageUnit) / usageUnit
	b.further = append(b.further, f)
}

// usage returns the finished usage.
func (b *usageBuilder) usage() *Usage {
	u := &Usage{number: usages.Add(1), gpus: b.gpus, snapshots: b.snapshots, further: b.further}
	u.offsets = append(u.offsets, 0)
	for i := range b.series {
		u.code = append(u.code, b.series[i].code...)
		u.offsets = append(u.offsets, uint32(len(u.code)))
	}
	trim(&u.offsets)
	trim(&u.code)
	slices.SortFunc(u.further, func(x, y FurtherUsage) int {
		return cmp.Or(cmp.Compare(x.Snapshot, y.Snapshot), cmp.Compare(x.index(), y.index()), cmp.Compare(x.Claim, y.Claim))
	})
	return u
}

// stored returns the parts of the usage that are written.
func (u *Usage) stored() []any { return []any{&u.snapshots, &u.offsets, &u.code, &u.further} }

// decodeUsage reads the stored parts of the usage of a day with the given GPUs and snapshots. Returns errDamagedUsage
// if the bytes are not such parts.
func decodeUsage(encoded []byte, gpus []GPU, snapshots int) (*Usage, error) {
	u := &Usage{number: usages.Add(1), gpus: gpus}
	err := readParts(encoded, u.stored())
	if err != nil || u.snapshots != snapshots || len(u.offsets) != 2*len(gpus)+1 || !u.valid() {
		return nil, errDamagedUsage
	}
	return u, nil
}

// valid reports whether each place's code can be read and has no more values than there are snapshots, and whether the
// further values are of places and snapshots that exist.
func (u *Usage) valid() bool {
	places := len(u.offsets) - 1
	if !areOffsets(u.offsets, places, len(u.code)) {
		return false
	}
	for p := range places {
		if !validCode(u.code[u.offsets[p]:u.offsets[p+1]], u.snapshots) {
			return false
		}
	}
	for _, f := range u.further {
		if f.Snapshot < 0 || f.Snapshot >= u.snapshots || f.GPU < 0 || f.GPU >= places/2 ||
			f.Side > pool.Backfill || f.Claim < 0 {
			return false
		}
	}
	return true
}

func validCode(code []byte, snapshots int) bool {
	left := uint64(snapshots)
	for len(code) > 0 {
		token, n := binary.Uvarint(code)
		taken := token >> 1 // skipped
		if token&1 == 1 {
			taken = 1
		}
		if n <= 0 || taken > left {
			return false
		}
		code, left = code[n:], left-taken
	}
	return true
}
