package timeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
)

const september = "gpu_state_2025-09.db"

var start = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// quarterly makes snapshots from the n-th quarter of an hour of September on, of two GPUs that change hands now and
// then.
func quarterly(from, to int) (rows []drawnRow) {
	for i := from; i < to; i++ {
		at := start + pool.Micros(i)*15*pool.Minute
		for g := range 2 {
			r := drawnRow{at: at, slot: "slot1_1@m", gpu: fmt.Sprintf("GPU-%d", g), Row: snapshotstest.Row{
				"Name": "slot1_1@m", "Machine": "m", "AssignedGPUs": fmt.Sprintf("GPU-%d", g), "State": "Unclaimed",
				"timestamp": pool.Time(at).Format("2006-01-02 15:04:05.000000")}}
			if (i/7+g)%3 == 0 {
				r.Row["State"], r.Row["RemoteOwner"], r.Row["GlobalJobId"] = "Claimed", "alice",
					fmt.Sprintf("ap#%d.0#1756000000", i/7)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func plain(rows []drawnRow) (out []snapshotstest.Row) {
	for _, r := range rows {
		out = append(out, r.Row)
	}
	return out
}

func load(t testing.TB, tl *Timeline, rows []drawnRow) *View {
	t.Helper()
	v, err := tl.Load(t.Context(), rows[0].at, rows[len(rows)-1].at)
	require.NoError(t, err)
	return v
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The current day grows by the rows of each new snapshot; finished days stay the very same segment.
func TestNewRowsAreSeen(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			dir := t.TempDir()
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema, "journal_mode="+journal)
			snapshotstest.Append(t, db, snapshotstest.Schema, plain(quarterly(0, 250))...)
			tl := open(t, dir, "UTC", t.TempDir())
			defer tl.Close()
			first := load(t, tl, quarterly(0, 250))
			for n := 250; n < 420; n += 3 {
				rows := quarterly(n, n+3)
				snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[:3])...) // half of a snapshot
				load(t, tl, rows)
				snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[3:])...)
				v := load(t, tl, quarterly(0, n+3))
				requireEqual(t, ask(quarterly(0, n+3)), v)
				require.Same(t, first.Days[0], v.Days[0])
				require.Positive(t, v.Work.Kept)
				require.LessOrEqual(t, v.Work.Rows, int64(2*8), "what this load appended after the newest snapshot, which is "+
					"read again; near midnight of two days")
			}
		})
	}
}

// Finished days come back from disk after a restart; damaged and foreign cache files are ignored, and foreign
// ones stay.
func TestCacheDirectory(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarterly(0, 600)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", cache)
	load(t, tl, rows)
	require.NoError(t, tl.CacheError())
	require.NoError(t, tl.Close())

	segments, err := filepath.Glob(filepath.Join(cache, segcache.Folder, "*.segment"))
	require.NoError(t, err)
	require.Len(t, segments, 8, "600 quarters are 6 finished days and one that runs; the empty day before them is "+
		"finished too")
	info, err := os.Stat(filepath.Join(cache, segcache.Folder))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	tl = open(t, dir, "UTC", cache)
	state, err := tl.look(t.Context())
	require.NoError(t, err)
	segment := tl.segmentOf(state, pool.DayOf(start)+2, nil, new(loadStats))
	_, valid, err := tl.segments.fromDisk(t.Context(), &segment)
	require.NoError(t, err)
	require.True(t, valid)
	v := load(t, tl, rows)
	requireEqual(t, ask(rows), v)
	require.Equal(t, Work{OnDisk: 8, Read: 1}, v.Work, "the empty day to come is looked at too")
	require.Equal(t, Work{Kept: 9}, load(t, tl, rows).Work)
	require.NoError(t, tl.Close())

	random := rand.New(rand.NewPCG(1, 2))
	for i, name := range segments {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		switch i {
		case 0:
			content = content[:len(content)-1]
		case 1:
			content = nil
		case 2:
			content = []byte("a note of mine")
		default:
			for range 5 {
				content[random.IntN(len(content))] ^= byte(1 + random.IntN(255))
			}
		}
		require.NoError(t, os.WriteFile(name, content, 0o600))
	}
	foreign := filepath.Join(cache, segcache.Folder, "README")
	require.NoError(t, os.WriteFile(foreign, []byte("hands off"), 0o600))
	tl = openWith(t, dir, "UTC", cache, 1) // every write now drops as much as it can
	defer tl.Close()
	requireEqual(t, ask(rows), load(t, tl, rows))
	require.FileExists(t, foreign)
}

// A cache directory that cannot be used costs time, not answers.
func TestCacheDirectoryCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 300)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	tl := open(t, dir, "UTC", file)
	defer tl.Close()
	require.ErrorContains(t, tl.CacheError(), "cacheDir")
	requireEqual(t, ask(rows), load(t, tl, rows))

	cache := t.TempDir()
	tl = open(t, dir, "UTC", cache)
	defer tl.Close()
	require.NoError(t, os.RemoveAll(filepath.Join(cache, segcache.Folder)))
	requireEqual(t, ask(rows), load(t, tl, rows))
	require.Error(t, tl.CacheError())
}

// Memory stays within its budget; dropped days are read again.
func TestMemoryBudget(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 96*12)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", t.TempDir())
	defer tl.Close()
	v := load(t, tl, rows)
	largest := 0
	for _, d := range v.Days {
		largest = max(largest, d.Bytes())
	}
	tl.cache.memory.(interface{ SetMaximum(uint64) }).SetMaximum(uint64(3 * largest))
	for range 3 {
		requireEqual(t, ask(rows), load(t, tl, rows))
		used, budget := tl.Memory()
		require.LessOrEqual(t, used, budget)
		require.Positive(t, used)
	}
}

// Equal loads at the same moment read a day once; a cancelled one does not disturb the others.
func TestLoadsAtOnce(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 96*8)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	var wait sync.WaitGroup
	views := make([]*View, 10)
	for i := range views {
		wait.Add(2)
		go func() {
			defer wait.Done()
			var err error
			views[i], err = tl.Load(t.Context(), rows[0].at, rows[len(rows)-1].at)
			require.NoError(t, err)
		}()
		go func() {
			defer wait.Done()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := tl.Load(ctx, rows[0].at, rows[len(rows)-1].at)
			require.ErrorIs(t, err, context.Canceled)
		}()
	}
	wait.Wait()
	for _, v := range views {
		require.Equal(t, views[0].Days, v.Days)
		for i := range v.Days {
			require.Same(t, views[0].Days[i], v.Days[i])
		}
	}
	requireEqual(t, ask(rows), views[0])
}

// Rows in any order give the same spans, and a notice of the order.
func TestUnorderedFile(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 500)
	shuffled := append(append([]drawnRow{}, rows[600:]...), rows[:600]...)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(shuffled)})
	tl := open(t, dir, "UTC", t.TempDir())
	defer tl.Close()
	v := load(t, tl, rows)
	requireEqual(t, ask(rows), v)
	require.Contains(t, v.Notices, Notice{Text: september + " is not in the order of time: it is read in full"})
}

func TestNoData(t *testing.T) {
	dir := t.TempDir()
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	_, err := tl.Load(t.Context(), start, start+pool.Day)
	require.ErrorContains(t, err, "no month file")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))

	require.NoError(t, os.WriteFile(filepath.Join(dir, september),
		[]byte("junk, and more than a hundred bytes of it: junk, junk, junk, junk, junk, junk, junk, junk, junk, junk"),
		0o600))
	_, err = tl.Load(t.Context(), start, start+pool.Day)
	require.ErrorContains(t, err, september, "every file is broken")

	rows := quarterly(96*31, 96*32)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": plain(rows)})
	v, err := tl.Load(t.Context(), rows[0].at, rows[len(rows)-1].at)
	require.NoError(t, err, "the other file answers")
	requireEqual(t, ask(rows), v)
	require.Len(t, v.Notices, 1)
	require.True(t, v.Notices[0].Warning)

	v, err = tl.Load(t.Context(), start-100*pool.Day, start-90*pool.Day)
	require.NoError(t, err)
	require.Empty(t, v.Days)
	first, newest, ok, err := tl.Range(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, rows[0].at, first)
	require.Equal(t, rows[len(rows)-1].at, newest)
}

func TestWarm(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 600)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	require.NoError(t, tl.Warm(t.Context()))
	warm := tl.segments.inMemory(tl.segments.blob(pool.DayOf(start)+1, nil))
	require.NotNil(t, warm)
	require.Contains(t, load(t, tl, rows).Days, warm.value)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, tl.Warm(ctx), context.Canceled)
}

// Whatever bytes a segment file holds, decoding ends with a day that can be walked, or an error.
func FuzzDecode(f *testing.F) {
	dir := f.TempDir()
	rows := quarterly(0, 200)
	snapshotstest.Write(f, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	tl := open(f, dir, "UTC", "")
	defer tl.Close()
	v := load(f, tl, rows)
	for _, d := range v.Days {
		f.Add(d.Date, encode(d, tl.Names))
	}
	f.Add(int32(0), []byte{})
	f.Fuzz(func(t *testing.T, date int32, b []byte) {
		d, err := decode(date, b, NewNames())
		if err != nil {
			return
		}
		jobs := d.Jobs()
		for i := range d.GPUs() {
			first, status := d.Spans(i)
			for k := range first {
				_, _ = d.StatusRows(status[k]), d.FurtherClaims(status[k])
				_, _ = jobs[status[k]], d.Times[first[k]]
			}
			d.Model(i)
			for x := range d.Times {
				d.Reports(d.MachineOf(i), x)
			}
		}
	})
}

// Objects of a bucket are written by others: an element of a long list can lack fields.
func TestLongListsOfIncompleteElements(t *testing.T) {
	for _, long := range []longLists{{gpus: make([]uint32, 4)}, {statuses: make([]uint32, 3)}, {jobs: make([]uint32, 6)}} {
		require.False(t, long.restore(new(Day)), "%v", long)
	}
	whole := longLists{gpus: []uint32{7, 1, 2}, statuses: []uint32{3, 4, 5, 6}, jobs: []uint32{8, 9, 10, 11}}
	var d Day
	require.True(t, whole.restore(&d))
	require.Equal(t, []gpuDay{{GPU: 7, Machine: 1, Model: 2}}, d.gpus)
	require.Equal(t, []statusRows{{3, 4}, {5, 6}}, d.statuses)
	require.Equal(t, []Job{{Schedd: 8, Cluster: 9, Proc: 10, QDate: 11}}, d.jobs)
	require.Equal(t, whole, *d.longLists())
}

type weight int

func (w weight) Bytes() int { return int(w) }

func day(date int) segcache.Blob { return segcache.Blob{Date: int32(date)} }

// The memory stays within its budget, however many put values into it, and counts exactly those that it holds.
func TestMemoryIsWhatIsHeld(t *testing.T) {
	c := newDayCache(nil, 1000, nil, nil)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 500 {
				c.memory.Set(day((i*7+worker*3)%11), weight(100+i%300))
			}
		})
	}
	wait.Wait()
	c.memory.(interface{ CleanUp() }).CleanUp()
	held := 0
	for _, w := range c.memory.All() {
		held += w.Bytes()
	}
	used := c.memory.WeightedSize()
	require.EqualValues(t, held, used)
	require.LessOrEqual(t, used, c.memory.GetMaximum())
	require.Positive(t, used)
}

// A value that is used again and again stays while others come and go.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	c := newDayCache(nil, 1000, nil, nil)
	c.memory.Set(day(1), weight(100))
	for date := 100; date < 300; date++ {
		_, kept := c.memory.GetIfPresent(day(1))
		require.True(t, kept, date)
		c.memory.Set(day(date), weight(300))
	}
}

// Whoever waits for a day that another question derives leaves at its own deadline.
func TestWaiterLeavesAtItsDeadline(t *testing.T) {
	dir, rows, _ := finishedDays(t)
	tl := open(t, dir, "UTC", "")
	reached, release := make(chan struct{}), make(chan struct{})
	tl.cache.source = &hooked{tl.Source, func() {
		reached <- struct{}{}
		<-release
	}}
	defer tl.Close()
	at := rows[2*96*2+100].at
	first := make(chan error)
	go func() {
		_, err := tl.Load(t.Context(), at, at)
		first <- err
	}()
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := tl.Load(ctx, at, at)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(release)
	require.NoError(t, <-first)
}

// leaving is a state in which the one who asks leaves while a day is compared.
type leaving struct {
	snapshots.State
	leave context.CancelFunc
}

func (l leaving) Holds(ctx context.Context, _ int32, _ snapshots.Known) (bool, error) {
	l.leave()
	return false, ctx.Err()
}

// A panel that is canceled leaves the day in memory, where others find it.
func TestCanceledPanelsKeepTheDay(t *testing.T) {
	dir, _, window := finishedDays(t)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	tl := New(Options{Source: registry.OpenDir(d, localtime.UTC), MaxBytes: 1 << 30})
	defer tl.Close()
	_ = load(t, tl, window)
	state, err := tl.look(t.Context())
	require.NoError(t, err)
	date := pool.DayOf(window[len(window)/2].at)
	before := tl.segments.inMemory(tl.segments.blob(date, nil))
	require.NotNil(t, before)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = tl.segments.get(ctx, tl.segmentOf(leaving{state, cancel}, date, nil, new(loadStats)))
	require.ErrorIs(t, err, context.Canceled)
	require.Same(t, before, tl.segments.inMemory(tl.segments.blob(date, nil)))
}
