package timeline

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/pool"
)

// drawnUsage is the usage of a day, by place and snapshot; NaN is none.
type drawnUsage struct {
	gpus, snapshots int
	values          map[UsagePlace][]float64
	further         []FurtherUsage
}

func drawUsage(t *rapid.T) drawnUsage {
	d := drawnUsage{gpus: rapid.IntRange(0, 5).Draw(t, "gpus"), snapshots: rapid.IntRange(1, 30).Draw(t, "snapshots"),
		values: map[UsagePlace][]float64{}}
	value := rapid.OneOf(rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Float64Range(0, 8), rapid.Float64Range(0, 1e-9),
		rapid.Float64Range(0, mostUsage))
	for g := range d.gpus {
		for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
			d.values[UsagePlace{g, side}] = rapid.SliceOfN(value, d.snapshots, d.snapshots).Draw(t, "values")
		}
	}
	if d.gpus > 0 {
		for s := range d.snapshots {
			if rapid.IntRange(0, 9).Draw(t, "further") == 0 {
				place := UsagePlace{rapid.IntRange(0, d.gpus-1).Draw(t, "gpu"), pool.Side(rapid.IntRange(0, 1).Draw(t, "side"))}
				d.further = append(d.further, FurtherUsage{place, s, rapid.IntRange(0, 2).Draw(t, "claim"),
					rapid.Float64Range(0, 4).Draw(t, "usage")})
			}
		}
	}
	return d
}

// gpusOf returns GPUs of a pool, in another order than their numbers in a day.
func gpusOf(n int) (gpus []GPU) {
	for g := range n {
		gpus = append(gpus, GPU(100-g))
	}
	return gpus
}

// fill gives a builder the snapshots from one onward.
func (d drawnUsage) fill(b *usageBuilder, from int) {
	for s := from; s < d.snapshots; s++ {
		b.snapshot()
		for g := range d.gpus {
			for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
				if v := d.values[UsagePlace{g, side}][s]; !math.IsNaN(v) {
					b.set(s, UsagePlace{g, side}, v)
				}
			}
		}
		for _, f := range d.further {
			if f.Snapshot == s {
				b.setFurther(f)
			}
		}
	}
}

func (d drawnUsage) check(t require.TestingT, b *Usage) {
	require.Len(t, b.offsets, 2*d.gpus+1)
	require.Equal(t, d.snapshots, b.snapshots)
	for place, want := range d.values {
		got := make([]float64, d.snapshots)
		any := b.Read(place, got)
		for s := range want {
			require.Equal(t, math.IsNaN(want[s]), math.IsNaN(got[s]))
			if any = any && math.IsNaN(got[s]); !math.IsNaN(want[s]) {
				require.InDelta(t, want[s], got[s], 0.51/usageUnit+2.3e-16*want[s])
			}
		}
		require.False(t, any, "it reports whether there is a value")
	}
	require.Len(t, b.Further(), len(d.further))
	for i, f := range d.further {
		got := b.Further()[i]
		require.InDelta(t, f.Usage, got.Usage, 0.51/usageUnit)
		got.Usage = f.Usage
		require.Equal(t, f, got)
	}
}

func TestUsageOfDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawUsage(t)
		builder := newUsageBuilder(gpusOf(d.gpus))
		d.fill(builder, 0)
		b := builder.usage()
		d.check(t, b)

		decoded, err := decodeUsage(writeParts(b.stored()), b.gpus, d.snapshots)
		require.NoError(t, err)
		d.check(t, decoded)
		require.True(t, bytes.Equal(b.code, decoded.code))
		require.Equal(t, b.offsets, decoded.offsets)

		// A day that grows: GPUs that appear later move the others.
		before := rapid.IntRange(0, d.snapshots-1).Draw(t, "before")
		moved, more := map[GPU]int{}, drawnUsage{d.gpus + 1, d.snapshots, map[UsagePlace][]float64{}, nil}
		hole := rapid.IntRange(0, d.gpus).Draw(t, "hole")
		none := make([]float64, d.snapshots)
		for s := range none {
			none[s] = math.NaN()
		}
		more.values[UsagePlace{hole, pool.Primary}], more.values[UsagePlace{hole, pool.Backfill}] = none, none
		for g := range d.gpus {
			if moved[b.gpus[g]] = g; g >= hole {
				moved[b.gpus[g]]++
			}
			for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
				more.values[UsagePlace{moved[b.gpus[g]], side}] = d.values[UsagePlace{g, side}]
			}
		}
		for _, f := range d.further {
			f.GPU = moved[b.gpus[f.GPU]]
			more.further = append(more.further, f)
		}
		again := newUsageBuilder(gpusOf(d.gpus + 1))
		again.resume(b, before, moved)
		more.fill(again, before)
		more.check(t, again.usage())
	})
}

// Billionths of a GPU come back as the very numbers that were stored.
func TestUsageIsExact(t *testing.T) {
	b := newUsageBuilder(gpusOf(1))
	rnd := rand.New(rand.NewPCG(1, 1))
	var want []float64
	for range 2000 {
		v := float64(rnd.Int64N(16e9)) / 1e9
		want = append(want, v)
		b.set(b.snapshot(), UsagePlace{}, v)
	}
	b.set(b.snapshot(), UsagePlace{}, math.Inf(1))
	got := make([]float64, 2001)
	require.True(t, b.usage().Read(UsagePlace{}, got))
	require.Equal(t, want, got[:2000])
	require.InDelta(t, mostUsage, got[2000], 0, "what no slot can have is cut")
}

// Bytes that are damaged are an error, never a panic.
func FuzzDecodeUsage(f *testing.F) {
	b := newUsageBuilder(gpusOf(2))
	for s := range 5 {
		b.set(b.snapshot(), UsagePlace{s % 2, pool.Backfill}, float64(s))
	}
	b.setFurther(FurtherUsage{UsagePlace{1, pool.Primary}, 3, 0, 0.5})
	encoded := writeParts(b.usage().stored())
	f.Add(encoded, 2, 5)
	for i := range encoded {
		f.Add(encoded[:i], 2, 5)
		damaged := append([]byte{}, encoded...)
		damaged[i] ^= 0x81
		f.Add(damaged, 2, 5)
	}
	f.Fuzz(func(t *testing.T, encoded []byte, gpus, snapshots int) {
		gpus, snapshots = gpus&7, snapshots&63
		block, err := decodeUsage(encoded, gpusOf(gpus), snapshots)
		if err != nil {
			require.ErrorIs(t, err, errDamagedUsage)
			return
		}
		values := make([]float64, snapshots)
		for g := range gpus {
			block.Read(UsagePlace{g, pool.Primary}, values)
			block.Read(UsagePlace{g, pool.Backfill}, values)
		}
		_, err = decodeUsage(writeParts(block.stored()), block.gpus, snapshots)
		require.NoError(t, err)
	})
}
