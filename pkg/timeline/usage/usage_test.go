package usage

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

// drawn is a block's values, by place and snapshot; NaN is none.
type drawn struct {
	gpus, snapshots int
	values          map[Place][]float64
	further         []Further
}

func draw(t *rapid.T) drawn {
	d := drawn{gpus: rapid.IntRange(0, 5).Draw(t, "gpus"), snapshots: rapid.IntRange(1, 30).Draw(t, "snapshots"),
		values: map[Place][]float64{}}
	value := rapid.OneOf(rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Float64Range(0, 8), rapid.Float64Range(0, 1e-9),
		rapid.Float64Range(0, most))
	for g := range d.gpus {
		for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
			d.values[Place{g, side}] = rapid.SliceOfN(value, d.snapshots, d.snapshots).Draw(t, "values")
		}
	}
	if d.gpus > 0 {
		for s := range d.snapshots {
			if rapid.IntRange(0, 9).Draw(t, "further") == 0 {
				place := Place{rapid.IntRange(0, d.gpus-1).Draw(t, "gpu"), pool.Side(rapid.IntRange(0, 1).Draw(t, "side"))}
				d.further = append(d.further, Further{place, s, rapid.IntRange(0, 2).Draw(t, "claim"),
					rapid.Float64Range(0, 4).Draw(t, "usage")})
			}
		}
	}
	return d
}

// fill gives a builder the snapshots from one onward.
func (d drawn) fill(b *Builder, from int) {
	for s := from; s < d.snapshots; s++ {
		b.Snapshot()
		for g := range d.gpus {
			for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
				if v := d.values[Place{g, side}][s]; !math.IsNaN(v) {
					b.Set(s, Place{g, side}, v)
				}
			}
		}
		for _, f := range d.further {
			if f.Snapshot == s {
				b.SetFurther(f)
			}
		}
	}
}

func (d drawn) check(t require.TestingT, b *Block) {
	require.Len(t, b.offsets, 2*d.gpus+1)
	require.Equal(t, d.snapshots, b.Snapshots())
	for place, want := range d.values {
		got := make([]float64, d.snapshots)
		any := b.Read(place, got)
		for s := range want {
			require.Equal(t, math.IsNaN(want[s]), math.IsNaN(got[s]))
			if any = any && math.IsNaN(got[s]); !math.IsNaN(want[s]) {
				require.InDelta(t, want[s], got[s], 0.51/unit+2.3e-16*want[s])
			}
		}
		require.False(t, any, "it reports whether there is a value")
	}
	require.Len(t, b.Further(), len(d.further))
	for i, f := range d.further {
		got := b.Further()[i]
		require.InDelta(t, f.Usage, got.Usage, 0.51/unit)
		got.Usage = f.Usage
		require.Equal(t, f, got)
	}
}

func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		builder := NewBuilder(d.gpus)
		d.fill(builder, 0)
		b := builder.Block()
		d.check(t, b)

		decoded, err := Decode(b.Encode(), d.gpus, d.snapshots)
		require.NoError(t, err)
		d.check(t, decoded)
		require.True(t, bytes.Equal(b.code, decoded.code))
		require.Equal(t, b.offsets, decoded.offsets)

		// A day that grows: GPUs that appear later move the others.
		before := rapid.IntRange(0, d.snapshots-1).Draw(t, "before")
		moved, more := make([]int, d.gpus), drawn{d.gpus + 1, d.snapshots, map[Place][]float64{}, nil}
		hole := rapid.IntRange(0, d.gpus).Draw(t, "hole")
		none := make([]float64, d.snapshots)
		for s := range none {
			none[s] = math.NaN()
		}
		more.values[Place{hole, pool.Primary}], more.values[Place{hole, pool.Backfill}] = none, none
		for g := range moved {
			if moved[g] = g; g >= hole {
				moved[g]++
			}
			for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
				more.values[Place{moved[g], side}] = d.values[Place{g, side}]
			}
		}
		for _, f := range d.further {
			f.GPU = moved[f.GPU]
			more.further = append(more.further, f)
		}
		again := NewBuilder(d.gpus + 1)
		again.Resume(b, before, moved)
		more.fill(again, before)
		more.check(t, again.Block())
	})
}

// Billionths of a GPU come back as the very numbers that were stored.
func TestExact(t *testing.T) {
	b := NewBuilder(1)
	rnd := rand.New(rand.NewPCG(1, 1))
	var want []float64
	for range 2000 {
		v := float64(rnd.Int64N(16e9)) / 1e9
		want = append(want, v)
		b.Set(b.Snapshot(), Place{}, v)
	}
	b.Set(b.Snapshot(), Place{}, math.Inf(1))
	got := make([]float64, 2001)
	require.True(t, b.Block().Read(Place{}, got))
	require.Equal(t, want, got[:2000])
	require.InDelta(t, most, got[2000], 0, "what no slot can have is cut")
}

// Bytes that are damaged are an error, never a panic.
func FuzzDecode(f *testing.F) {
	b := NewBuilder(2)
	for s := range 5 {
		b.Set(b.Snapshot(), Place{s % 2, pool.Backfill}, float64(s))
	}
	b.SetFurther(Further{Place{1, pool.Primary}, 3, 0, 0.5})
	encoded := b.Block().Encode()
	f.Add(encoded, 2, 5)
	for i := range encoded {
		f.Add(encoded[:i], 2, 5)
		damaged := append([]byte{}, encoded...)
		damaged[i] ^= 0x81
		f.Add(damaged, 2, 5)
	}
	f.Fuzz(func(t *testing.T, encoded []byte, gpus, snapshots int) {
		gpus, snapshots = gpus&7, snapshots&63
		block, err := Decode(encoded, gpus, snapshots)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		values := make([]float64, snapshots)
		for g := range gpus {
			block.Read(Place{g, pool.Primary}, values)
			block.Read(Place{g, pool.Backfill}, values)
		}
		_, err = Decode(block.Encode(), gpus, snapshots)
		require.NoError(t, err)
	})
}
