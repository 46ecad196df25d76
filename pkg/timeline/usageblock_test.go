package timeline

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
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

// builderOf returns a builder of a day with GPUs whose ids have the order of their numbers.
func builderOf(gpus, snapshots int) (b *builder, order []uint32) {
	b = newBuilder(0, nil, NewNames(), nil, nil)
	b.day.Times, b.gpus = make([]pool.Micros, snapshots), make([]gpuBuild, gpus)
	for g := range gpus {
		order = append(order, uint32(g))
	}
	return b, order
}

// fill gives a builder the snapshots from one onward. GPUs have the given numbers in it.
func (d drawnUsage) fill(b *builder, from int, numbers []uint32) {
	for s := from; s < d.snapshots; s++ {
		for place, values := range d.values {
			if v := values[s]; !math.IsNaN(v) {
				b.gpus[numbers[place.GPU]].usage[place.Side].add(s, unitsOf(v))
			}
		}
	}
	for _, f := range d.further {
		if f.Snapshot >= from {
			f.GPU, f.Usage = int(numbers[f.GPU]), float64(unitsOf(f.Usage))/usageUnit
			b.further = append(b.further, f)
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
		builder, order := builderOf(d.gpus, d.snapshots)
		d.fill(builder, 0, order)
		u := builder.finishUsage(order)
		d.check(t, u)

		decoded, err := decodeUsage(writeParts(u.stored()), d.gpus, d.snapshots)
		require.NoError(t, err)
		d.check(t, decoded)
		require.True(t, bytes.Equal(u.code, decoded.code))
		require.Equal(t, u.offsets, decoded.offsets)

		// A day that grows: a GPU that appears later stands before others.
		before := rapid.IntRange(0, d.snapshots-1).Draw(t, "before")
		hole := rapid.IntRange(0, d.gpus).Draw(t, "hole")
		again, _ := builderOf(d.gpus+1, d.snapshots)
		again.earlier, again.usage = &Day{gpus: make([]gpuDay, d.gpus)}, u
		again.resumeUsage(before)
		d.fill(again, before, order)
		grown := again.finishUsage(slices.Insert(order, hole, uint32(d.gpus)))

		none := slices.Repeat([]float64{math.NaN()}, d.snapshots)
		more := drawnUsage{d.gpus + 1, d.snapshots, map[UsagePlace][]float64{{hole, pool.Primary}: none,
			{hole, pool.Backfill}: none}, nil}
		moved := func(gpu int) int {
			if gpu >= hole {
				gpu++
			}
			return gpu
		}
		for place, values := range d.values {
			more.values[UsagePlace{moved(place.GPU), place.Side}] = values
		}
		for _, f := range d.further {
			f.GPU = moved(f.GPU)
			more.further = append(more.further, f)
		}
		more.check(t, grown)
	})
}

// Billionths of a GPU come back as the very numbers that were stored.
func TestUsageIsExact(t *testing.T) {
	b, order := builderOf(1, 2001)
	rnd := rand.New(rand.NewPCG(1, 1))
	var want []float64
	add := func(v float64) { b.gpus[0].usage[pool.Primary].add(len(want), unitsOf(v)) }
	for range 2000 {
		v := float64(rnd.Int64N(16e9)) / 1e9
		add(v)
		want = append(want, v)
	}
	add(math.Inf(1))
	got := make([]float64, 2001)
	require.True(t, b.finishUsage(order).Read(UsagePlace{}, got))
	require.Equal(t, want, got[:2000])
	require.InDelta(t, mostUsage, got[2000], 0, "what no slot can have is cut")
}

// Bytes that are damaged are an error, never a panic.
func FuzzDecodeUsage(f *testing.F) {
	b, order := builderOf(2, 5)
	for s := range 5 {
		b.gpus[s%2].usage[pool.Backfill].add(s, unitsOf(float64(s)))
	}
	b.further = []FurtherUsage{{UsagePlace{1, pool.Primary}, 3, 0, 0.5}}
	encoded := writeParts(b.finishUsage(order).stored())
	f.Add(encoded, 2, 5)
	for i := range encoded {
		f.Add(encoded[:i], 2, 5)
		damaged := append([]byte{}, encoded...)
		damaged[i] ^= 0x81
		f.Add(damaged, 2, 5)
	}
	f.Fuzz(func(t *testing.T, encoded []byte, gpus, snapshots int) {
		gpus, snapshots = gpus&7, snapshots&63
		block, err := decodeUsage(encoded, gpus, snapshots)
		if err != nil {
			require.ErrorIs(t, err, errDamagedUsage)
			return
		}
		values := make([]float64, snapshots)
		for g := range gpus {
			block.Read(UsagePlace{g, pool.Primary}, values)
			block.Read(UsagePlace{g, pool.Backfill}, values)
		}
		_, err = decodeUsage(writeParts(block.stored()), gpus, snapshots)
		require.NoError(t, err)
	})
}
