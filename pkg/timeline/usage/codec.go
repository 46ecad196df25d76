package usage

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/chtc/gpureports/pkg/pool"
)

// ErrDamaged is returned for bytes that Encode cannot have written.
var ErrDamaged = errors.New("damaged usage block")

// planes are the lowest bytes of the differences, which stand apart from their higher ones: these hardly vary, and
// compress.
const planes = 3

// Encode writes a block, to be compressed: stretches of values a place, then the differences, byte by byte.
func (b *Block) Encode() []byte {
	places := len(b.offsets) - 1
	var stretches, high []byte
	var low [planes][]byte
	for p := range places {
		var own []byte
		count, skipped, values := 0, 0, 0
		flush := func() {
			if values > 0 {
				own = binary.AppendUvarint(binary.AppendUvarint(own, uint64(skipped)), uint64(values))
				count++
			}
			skipped, values = 0, 0
		}
		b.tokens(p, func(token uint64, _ int64) {
			if token&1 == 0 {
				flush()
				skipped += int(token >> 1)
				return
			}
			values++
			difference := token >> 1
			for i := range low {
				low[i] = append(low[i], byte(difference>>(8*i)))
			}
			high = binary.AppendUvarint(high, difference>>(8*planes))
		})
		flush()
		stretches = append(binary.AppendUvarint(stretches, uint64(count)), own...)
	}
	out := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(b.snapshots)), uint64(places))
	out = append(out, stretches...)
	for i := range low {
		out = append(out, low[i]...)
	}
	out = append(out, high...)
	out = binary.AppendUvarint(out, uint64(len(b.further)))
	for _, f := range b.further {
		for _, v := range []int{f.Snapshot, f.index(), f.Claim} {
			out = binary.AppendUvarint(out, uint64(v))
		}
		out = binary.AppendUvarint(out, uint64(math.Round(f.Usage*unit)))
	}
	return out
}

// decoder reads from a buffer; after the first fault everything is 0.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) uint(most uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || v > most || d.failed {
		d.failed = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

// number returns a number from 0 to most.
func (d *decoder) number(most int) int { return int(d.uint(uint64(max(most, 0)))) }

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.failed = true
	}
	if d.failed {
		return make([]byte, n)
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

// Bounds of what Encode writes: a segment numbers its snapshots in 16 bits.
const (
	mostSnapshots = 1 << 16
	mostPlaces    = 1 << 24
	mostBits      = 1<<52 - 1 // of a difference
)

// Decode reads a block of a day with so many GPUs and snapshots. Returns ErrDamaged if the bytes are not such a block.
func Decode(encoded []byte, gpus, snapshots int) (*Block, error) {
	d := &decoder{b: encoded}
	if d.number(mostSnapshots) != snapshots || d.number(mostPlaces) != 2*gpus || d.failed {
		return nil, ErrDamaged
	}
	type stretch struct{ skip, values int }
	var stretches []stretch
	ends := make([]int, 2*gpus) // of each place's stretches
	total := 0
	for p := range ends {
		left := snapshots
		for range d.number(snapshots) {
			s := stretch{skip: d.number(left)}
			s.values = d.number(left - s.skip)
			left -= s.skip + s.values
			total += s.values
			stretches = append(stretches, s)
		}
		ends[p] = len(stretches)
	}
	if d.failed || planes*total > len(d.b) {
		return nil, ErrDamaged
	}
	var low [planes][]byte
	for i := range low {
		low[i] = d.bytes(total)
	}
	b := &Block{number: blocks.Add(1), snapshots: snapshots, offsets: make([]uint32, 0, 2*gpus+1),
		code: make([]byte, 0, (planes+2)*total)}
	next, at := 0, 0
	for _, end := range ends {
		b.offsets = append(b.offsets, uint32(len(b.code)))
		for ; next < end; next++ {
			if s := stretches[next]; s.skip > 0 {
				b.code = binary.AppendUvarint(b.code, uint64(s.skip)<<1)
			}
			for range stretches[next].values {
				difference := d.uint(mostBits>>(8*planes)) << (8 * planes)
				for i := range low {
					difference |= uint64(low[i][at]) << (8 * i)
				}
				at++
				b.code = binary.AppendUvarint(b.code, difference<<1|1)
			}
		}
	}
	b.offsets = append(b.offsets, uint32(len(b.code)))
	b.code = append(make([]byte, 0, len(b.code)), b.code...)
	for range d.number(len(d.b)) {
		f := Further{Snapshot: d.number(snapshots - 1)}
		place := d.number(2*gpus - 1)
		f.Place = Place{place / 2, pool.Side(place % 2)}
		f.Claim = d.number(math.MaxInt32)
		f.Usage = float64(d.uint(mostBits)) / unit
		b.further = append(b.further, f)
	}
	if d.failed || len(d.b) > 0 {
		return nil, ErrDamaged
	}
	return b, nil
}
