package timeline

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
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

// claimed are snapshots, a quarter of an hour apart, in which jobs hold GPUs and report usages: rows that are doubled
// and contradict each other, GPUs with two jobs, claims without a job, without a usage, and with an impossible one.
func claimed(rnd *rand.Rand, from, to int) (rows []drawnRow) {
	for i := from; i < to; i++ {
		at := start + pool.Micros(i)*15*pool.Minute
		for range 6 {
			machine, gpu := fmt.Sprint("m", rnd.IntN(2)), rnd.IntN(2+i/40) // GPUs appear over time
			row := snapshotstest.Row{
				"Name": []string{"slot1_1", "backfill2_1"}[rnd.IntN(2)] + "@" + machine, "Machine": machine,
				"AssignedGPUs": fmt.Sprintf("GPU-%d", 9-gpu),
				"State":        []string{"Claimed", "Claimed", "Claimed", "Preempting", "Unclaimed"}[rnd.IntN(5)],
				"timestamp":    pool.Time(at).Format("2006-01-02 15:04:05.000000"),
				"RemoteOwner":  []string{"ann", "bob"}[rnd.IntN(2)],
			}
			if job := rnd.IntN(4); job > 0 {
				row["GlobalJobId"] = fmt.Sprintf("ap#%d.0#1756000000", job)
			}
			if u := rnd.IntN(10); u > 1 {
				row["GPUsAverageUsage"] = float64(rnd.Int64N(3e9)) / 1e9
			} else if u == 1 {
				row["GPUsAverageUsage"] = -0.5
			}
			rows = append(rows, drawnRow{at: at, Row: row})
		}
	}
	return rows
}

// reportsOf is what claims report by the definition: the last value, in file order, of a claim's rows in a snapshot.
func reportsOf(rows []drawnRow) map[string]float64 {
	reports := map[string]float64{}
	for _, r := range rows {
		value, ok := r.Row["GPUsAverageUsage"].(float64)
		if state := r.Row["State"]; !ok || value < 0 || state != "Claimed" && state != "Preempting" {
			continue
		}
		side := pool.SideOf(r.Row["Name"].(string))
		job, _ := r.Row["GlobalJobId"].(string)
		claim := job
		if job == "" {
			claim = fmt.Sprint(r.Row["RemoteOwner"], r.Row["AssignedGPUs"])
		}
		reports[fmt.Sprint(r.at, r.Row["Machine"], side, claim)] = value
	}
	return reports
}

// readReports is what the blocks of a view hold.
func readReports(t *testing.T, tl *Timeline, v *View) map[string]float64 {
	t.Helper()
	blocks, notices, err := tl.Usage(t.Context(), v, 0, len(v.Days))
	require.NoError(t, err)
	require.Empty(t, notices)
	require.Len(t, blocks, len(v.Days))
	reports := map[string]float64{}
	note := func(at pool.Micros, gpu GPU, side pool.Side, user Symbol, job Job, value float64) {
		machine, id := v.Names.GPU(gpu)
		claim := v.Names.JobText(job)
		if job.IsNone() {
			claim = v.Names.Text(user) + v.Names.Text(id)
		}
		key := fmt.Sprint(at, v.Names.Text(machine), side, claim)
		require.NotContains(t, reports, key, "once a claim")
		reports[key] = value
	}
	for k, d := range v.Days {
		values, jobs := make([]float64, len(d.Times)), d.Jobs()
		at := func(gpu, s int) uint32 {
			first, statuses := d.Spans(gpu)
			i := len(first) - 1
			for int(first[i]) > s {
				i--
			}
			return statuses[i]
		}
		for g := range d.GPUs() {
			for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
				blocks[k].Read(UsagePlace{GPU: g, Side: side}, values)
				for s, value := range values {
					if !math.IsNaN(value) {
						status := d.Status(at(g, s))
						row := status.Row(side)
						require.Equal(t, pool.Claimed, row.State)
						note(d.Times[s], d.GPU(g), side, row.User, jobs.Of(at(g, s), side), value)
					}
				}
			}
		}
		for _, f := range blocks[k].Further() {
			claim := d.Status(at(f.GPU, f.Snapshot)).Extra[f.Claim]
			require.Equal(t, f.Side, claim.Side)
			note(d.Times[f.Snapshot], d.GPU(f.GPU), f.Side, claim.User, claim.Job, f.Usage)
		}
	}
	return reports
}

// The block has every claim's reported value, regardless of the other rows of its snapshot: while the day grows, from
// memory, from the cache directory, and after that is damaged.
func TestUsageSaysWhatTheRowsSay(t *testing.T) {
	for seed := range uint64(4) {
		rows := claimed(rand.New(rand.NewPCG(seed, 0)), 0, 150) // a day and a half
		dir, cache := t.TempDir(), t.TempDir()
		db := snapshotstest.Open(t, dir, september, snapshotstest.Schema, "journal_mode=WAL")
		tl := open(t, dir, "UTC", cache)
		for n := 0; n < len(rows); n += 180 {
			snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[n:min(n+180, len(rows))])...)
			v := load(t, tl, rows[:min(n+180, len(rows))])
			want := reportsOf(rows[:min(n+180, len(rows))])
			require.NotEmpty(t, want)
			require.Equal(t, want, readReports(t, tl, v))
			require.Equal(t, want, readReports(t, tl, v), "out of memory")
		}
		require.NoError(t, tl.Close())

		files, err := filepath.Glob(filepath.Join(cache, "*", "*.usage"))
		require.NoError(t, err)
		require.Len(t, files, 2, "of the finished day, and of the empty one before it")
		for _, damage := range []bool{false, true} {
			if damage {
				for _, file := range files {
					content, err := os.ReadFile(file)
					require.NoError(t, err)
					content[len(content)/2] ^= 1
					require.NoError(t, os.WriteFile(file, content, 0o600))
				}
			}
			again := open(t, dir, "UTC", cache)
			require.Equal(t, reportsOf(rows), readReports(t, again, load(t, again, rows)))
			require.NoError(t, again.Close())
		}
	}
}

// A view is answered from its own snapshots, even if more rows have come since; one whose rows are gone fails with
// an error.
func TestUsageOfAnOldView(t *testing.T) {
	rows := claimed(rand.New(rand.NewPCG(9, 9)), 0, 150)
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[:600])...)
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	v := load(t, tl, rows[:600])
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[600:])...)
	for range 2 {
		require.Equal(t, reportsOf(rows[:600]), readReports(t, tl, v))
		tl.cache.memory.InvalidateAll() // now rows are read
	}

	fresh := open(t, dir, "UTC", "")
	defer fresh.Close()
	v = load(t, fresh, rows)
	_, err := db.Exec("DROP TABLE gpu_state")
	require.NoError(t, err)
	fresh.cache.memory.InvalidateAll()
	_, notices, err := fresh.Usage(t.Context(), v, 1, 2)
	require.True(t, err != nil || len(notices) == 1 && notices[0].Warning &&
		strings.Contains(notices[0].Text, "GPUsAverageUsage of 2025-09-02 cannot be read"), "%v %v", err, notices)
}

// Rows of a view's day that are edited before its usage is read once more, because it is no longer in memory, do not
// make an answer fail: Retry loads the view again.
func TestUsageOfRowsThatChange(t *testing.T) {
	rows := claimed(rand.New(rand.NewPCG(7, 7)), 0, 150)
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows)...)
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	tries := 0
	err := Retry(t.Context(), func(ctx context.Context) error {
		v, err := tl.Load(ctx, rows[0].at, rows[len(rows)-1].at)
		require.NoError(t, err)
		if tries++; tries == 1 {
			_, err = db.Exec("UPDATE gpu_state SET GlobalJobId = 'ap#9.0#1756000000' WHERE rowid <= 300")
			require.NoError(t, err)
			tl.cache.memory.InvalidateAll()
		}
		blocks, notices, err := tl.Usage(ctx, v, 0, len(v.Days))
		if err != nil {
			return err
		}
		require.Empty(t, notices)
		require.Len(t, blocks, len(v.Days))
		for i := range rows[:300] {
			rows[i].Row["GlobalJobId"] = "ap#9.0#1756000000"
		}
		require.Equal(t, reportsOf(rows), readReports(t, tl, v))
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 2, tries)

	tries = 0
	err = Retry(t.Context(), func(context.Context) error { tries++; return snapshots.ErrStale })
	require.EqualError(t, err, "the snapshots changed while they were read: ask again")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.Equal(t, 10, tries)
}

// Months without the column have no values.
func TestUsageWithoutColumn(t *testing.T) {
	rows := claimed(rand.New(rand.NewPCG(1, 1)), 0, 20)
	var schema []string
	for _, c := range snapshotstest.Schema {
		if !strings.HasPrefix(c, "GPUsAverageUsage") {
			schema = append(schema, c)
		}
	}
	require.Less(t, len(schema), len(snapshotstest.Schema))
	for i := range rows {
		delete(rows[i].Row, "GPUsAverageUsage")
	}
	dir := t.TempDir()
	snapshotstest.Append(t, snapshotstest.Open(t, dir, september, schema), schema, plain(rows)...)
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	require.Empty(t, readReports(t, tl, load(t, tl, rows)))
}
