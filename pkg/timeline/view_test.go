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
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
)

func rowsAt(times ...pool.Micros) (rows []snapshotstest.Row) {
	for _, at := range times {
		rows = append(rows, snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-0",
			"State":     "Unclaimed",
			"timestamp": pool.Time(at).Format("2006-01-02 15:04:05.000000")})
	}
	return rows
}

// every returns n times from a time onward.
func every(step, from pool.Micros, n int) (times []pool.Micros) {
	for i := range n {
		times = append(times, from+pool.Micros(i)*step)
	}
	return times
}

// A distance of exactly the limit is not a gap, one that is a microsecond longer is (methodology section 1: max(2.5 ×
// cadence, 20 min)).
func TestGapOfExactlyTheLimit(t *testing.T) {
	for _, c := range []struct{ cadence, limit pool.Micros }{
		{15 * pool.Minute, 37*pool.Minute + 30*pool.Second}, {10 * pool.Minute, 25 * pool.Minute},
		{8 * pool.Minute, 20 * pool.Minute}, {5 * pool.Minute, 20 * pool.Minute},
	} {
		times := every(c.cadence, start, 10)
		times = append(times, every(c.cadence, times[9]+c.limit, 10)...)
		times = append(times, every(c.cadence, times[19]+c.limit+1, 10)...)
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rowsAt(times...)})
		tl := open(t, dir, "UTC", "")
		v, err := tl.Load(t.Context(), start, times[len(times)-1])
		require.NoError(t, err)
		require.NoError(t, tl.Close())
		require.Equal(t, []Gap{{times[19], times[20]}}, v.Gaps(pool.Window{From: start, To: times[len(times)-1]}))
	}
}

// A day with few snapshots has the cadence of the day before, even if only the later day is requested; and 15
// minutes without such a day.
func TestCadenceLooksBack(t *testing.T) {
	next := start + pool.Day
	few := every(9*pool.Minute, next+12*pool.Hour, 8) // 7 distances
	for _, c := range []struct {
		before []pool.Micros
		want   pool.Micros
	}{
		{every(5*pool.Minute, start, 288), 5 * pool.Minute},
		{every(5*pool.Minute, start, 9), 5 * pool.Minute},
		{every(5*pool.Minute, start, 8), 15 * pool.Minute},
		{nil, 15 * pool.Minute},
		{every(5*pool.Minute, start-pool.Day, 288), 15 * pool.Minute},
	} {
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rowsAt(append(c.before, few...)...)})
		tl := open(t, dir, "UTC", "")
		v, err := tl.Load(t.Context(), few[0], few[len(few)-1])
		require.NoError(t, err)
		require.NoError(t, tl.Close())
		require.Equal(t, c.want, v.Cadence(pool.DayOf(next)), "%d snapshots before", len(c.before))
	}
}

// month is 28 days of a machine with 30 GPUs: a file with about 4,000 pages.
func month() (rows []snapshotstest.Row) {
	for i := range 28 * 96 {
		at := pool.Time(start + pool.Micros(i)*15*pool.Minute).Format("2006-01-02 15:04:05.000000")
		for g := range 30 {
			rows = append(rows, snapshotstest.Row{
				"Name": "slot1@machine-with-a-name.example.org", "Machine": "machine-with-a-name.example.org",
				"AssignedGPUs": fmt.Sprintf("GPU-%08d", g), "State": "Unclaimed", "GPUs_DeviceName": "NVIDIA H200", "timestamp": at,
			})
		}
	}
	return rows
}

// A damaged page loses only the days whose rows it contains: a notice names the file and the days, the other days
// answer, and reading ahead continues with older days. A window without any other day is an error. This includes the
// pages that searches read first, such as the one in the middle.
func TestDamagedPage(t *testing.T) {
	whole := t.TempDir()
	snapshotstest.Write(t, whole, map[string][]snapshotstest.Row{september: month()})
	content, err := os.ReadFile(filepath.Join(whole, september))
	require.NoError(t, err)
	const page = 4096
	pages := len(content) / page
	for _, damaged := range []int{40, pages / 4, pages/2 - 1, pages / 2, pages/2 + 37, pages * 3 / 4, pages - 40} {
		broken := slices.Clone(content)
		for i := damaged * page; i < (damaged+1)*page; i++ {
			broken[i] = 0xff
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, september), broken, 0o600))
		requireOtherDays(t, dir, fmt.Sprintf("page %d of %d", damaged, pages))
	}
}

func requireOtherDays(t *testing.T, dir, what string) {
	t.Helper()
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	v, err := tl.Load(t.Context(), start, start+28*pool.Day-1)
	require.NoError(t, err, what)
	require.GreaterOrEqual(t, len(v.Days), 26, "%s: it holds rows of one day, or of two with their margins", what)
	require.Less(t, len(v.Days), 28, what)
	for _, d := range v.Days {
		require.Len(t, d.Times, 96, what)
	}
	warnings := slices.DeleteFunc(slices.Clone(v.Notices), func(n Notice) bool { return !n.Warning })
	require.Len(t, warnings, 1, what)
	require.Contains(t, warnings[0].Text, september+" is damaged or truncated")
	left := int32(0)
	for date := pool.DayOf(start); date < pool.DayOf(start)+28; date++ {
		if !slices.ContainsFunc(v.Days, func(d *Day) bool { return d.Date == date }) {
			left = date
			require.Contains(t, warnings[0].Text,
				pool.Time(start+pool.Micros(date-pool.DayOf(start))*pool.Day).Format("2006-01-"))
		}
	}
	_, err = tl.Load(t.Context(), pool.Micros(left)*pool.Day, pool.Micros(left+1)*pool.Day-1)
	require.ErrorContains(t, err, september)
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))

	ahead := open(t, dir, "UTC", "")
	defer ahead.Close()
	require.NoError(t, ahead.Warm(t.Context()))
	again, err := ahead.Load(t.Context(), start, start+28*pool.Day-1)
	require.NoError(t, err)
	require.GreaterOrEqual(t, int(again.Work.Kept), len(again.Days), "%s: what can be read was read ahead", what)
	require.Zero(t, again.Work.Read, what)
}

func TestRangesOfDates(t *testing.T) {
	d := pool.DayOf(start)
	require.Equal(t, "2025-09-01 to 2025-09-03, 2025-09-05, 2025-09-07 to 2025-09-08",
		ranges([]int32{d, d + 1, d + 2, d + 4, d + 6, d + 7}))
}

// Timestamps with a T between date and time are the same times, also in files that hold both forms, where texts are not
// in the order of time.
func TestTimestampsWithT(t *testing.T) {
	zone := "America/Chicago"
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	begin := time.Date(2025, 9, 2, 0, 0, 0, 0, time.UTC)
	for name, form := range map[string]func(i int) string{
		"all": func(int) string { return "2006-01-02T15:04:05.000000" },
		"mixed": func(i int) string {
			return []string{"2006-01-02 15:04:05.000000",
				"2006-01-02T15:04:05"}[i/5%2]
		},
		"mixed snapshots": func(i int) string { return []string{"2006-01-02 15:04:05.000000", "2006-01-02T15:04:05"}[i%2] },
		"changed for ever": func(i int) string {
			return []string{"2006-01-02 15:04:05.000000",
				"2006-01-02T15:04:05"}[i/400]
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var rows []snapshotstest.Row
			for i := range 768 {
				at := begin.Add(time.Duration(i/2) * 15 * time.Minute).In(location)
				rows = append(rows, snapshotstest.Row{
					"Name": "slot1@m", "Machine": "m", "AssignedGPUs": []string{"GPU-0", "GPU-1"}[i%2], "State": "Unclaimed",
					"timestamp": at.Format(form(i)),
				})
			}
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rows})
			tl := open(t, dir, zone, "")
			defer tl.Close()
			v, err := tl.Load(t.Context(), begin.UnixMicro(), begin.Add(96*time.Hour).UnixMicro())
			require.NoError(t, err)
			require.Len(t, v.Times, 384)
			for i, at := range v.Times {
				require.Equal(t, begin.UnixMicro()+pool.Micros(i)*15*pool.Minute, at)
			}
			require.Empty(t, v.Notices)
			for _, d := range v.Days {
				require.Equal(t, 2, d.GPUs())
				require.Equal(t, 2, len(d.first))
			}
		})
	}
}

// Texts of users are kept up to a length, and stay different. A notice counts them, also of a day from disk.
func TestLongTexts(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 96*2)
	users := map[string]bool{}
	for i, r := range rows {
		r.Row["State"], r.Row["RemoteOwner"] = "Claimed", strings.Repeat("x", 20_000)+string(rune('a'+i%8))
		users[r.Row["RemoteOwner"].(string)] = true
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	for range 2 {
		tl := open(t, dir, "UTC", cache)
		v := load(t, tl, rows)
		seen := map[Symbol]bool{}
		for _, d := range v.Days {
			for _, r := range d.Rows {
				seen[r.User] = true
			}
		}
		require.Len(t, seen, 1+len(users), "and none")
		require.Less(t, v.Names.Bytes(), int64(len(users)*(pool.MostText+textBytes)+10_000))
		require.Len(t, v.Notices, 2)
		require.Equal(t, "2025-09-01: 8 different rows have texts of more than 1024 bytes: cut", v.Notices[0].Text)
		require.NoError(t, tl.Close())
	}
}

// If any byte of a segment's file is changed, or if the file is cut anywhere, the answers stay the same, and the file
// is rebuilt.
func TestDamageAnywhere(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 300)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", cache)
	load(t, tl, rows)
	require.NoError(t, tl.Close())
	files, err := filepath.Glob(filepath.Join(cache, segcache.Folder, "*-2025-09-02.segment"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	random, want, made := rand.New(rand.NewPCG(3, 4)), ask(rows), 0
	// The two lines before it say of which state of the file it was made, as far as that is certain.
	body := func(segment []byte) []byte { return bytes.SplitN(segment, []byte("\n"), 3)[2] }
	check := func(content []byte, what string) {
		require.NoError(t, os.WriteFile(files[0], content, 0o600))
		tl := open(t, dir, "UTC", cache)
		defer tl.Close()
		v := load(t, tl, rows)
		requireEqual(t, want, v)
		if v.Work.Read > 1 { // the current day, and the damaged one
			again, err := os.ReadFile(files[0])
			require.NoError(t, err)
			require.Equal(t, body(whole), body(again), what)
			made++
		}
	}
	check(whole, "whole")
	const ranges = 20
	for from := 0; from < len(whole); from += len(whole)/ranges + 1 { // some byte of each range
		at := min(len(whole)-1, from+random.IntN(len(whole)/ranges+1))
		content := append([]byte{}, whole...)
		content[at] ^= byte(1 + random.IntN(255))
		check(content, fmt.Sprint("byte ", at))
		check(whole[:at], fmt.Sprint("cut at ", at))
	}
	require.Greater(t, made, ranges, "most was noticed; what was not is a description that says the same")
}

// Bytes that no checksum guards are a day whose jobs can be read, or damaged.
func TestDecodingOfDamage(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 200)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	random, read := rand.New(rand.NewPCG(5, 6)), 0
	for _, d := range load(t, tl, rows).Days {
		whole := encode(d, tl.Names)
		for at := range whole {
			other := append([]byte{}, whole...)
			other[at] ^= byte(1 + random.IntN(255))
			lacking := append(whole[:at:at], whole[min(len(whole), at+1+random.IntN(9)):]...)
			for _, b := range [][]byte{other, whole[:at], lacking} {
				damaged, err := decode(d.Date, b, NewNames())
				if err != nil {
					require.ErrorIs(t, err, errDamaged)
					continue
				}
				require.Len(t, damaged.Jobs(), len(damaged.statuses))
				read++
			}
		}
	}
	require.Positive(t, read)
}

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
	require.Len(t, b.Further, len(d.further))
	for i, f := range d.further {
		got := b.Further[i]
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
			require.ErrorIs(t, err, errDamaged)
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
						row := d.StatusRows(at(g, s))[side]
						require.Equal(t, pool.Claimed, row.State)
						note(d.Times[s], d.GPU(g), side, row.User, jobs[at(g, s)][side], value)
					}
				}
			}
		}
		for _, f := range blocks[k].Further {
			claim := d.FurtherClaims(at(f.GPU, f.Snapshot))[f.Claim]
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
