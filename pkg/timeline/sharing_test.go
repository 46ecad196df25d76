package timeline

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
)

// hooked is a source that calls a function before each reading of rows.
type hooked struct {
	snapshots.Source
	before func()
}

type hookedState struct {
	snapshots.State
	source *hooked
}

func (h *hooked) Look(ctx context.Context) (snapshots.State, error) {
	state, err := h.Source.Look(ctx)
	if err != nil {
		return nil, err
	}
	return hookedState{state, h}, nil
}

func inner(k snapshots.Known) snapshots.Known {
	if h, ok := k.State.(hookedState); ok {
		k.State = h.State
	}
	return k
}

func (h hookedState) Holds(ctx context.Context, date int32, k snapshots.Known) (bool, error) {
	return h.State.Holds(ctx, date, inner(k))
}

func (h hookedState) Rows(ctx context.Context, date int32, from snapshots.Known, v snapshots.Visitor) (
	snapshots.Reading, error) {
	h.source.before()
	return h.State.Rows(ctx, date, inner(from), v)
}

// replica opens a directory as one of several processes on a bucket does.
func replica(t testing.TB, dir, zone, cache string, o bucket.Options) (tl *Timeline, readings *atomic.Int64) {
	t.Helper()
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	z, err := localtime.Parse([]byte(`"` + zone + `"`))
	require.NoError(t, err)
	b, err := bucket.Open(o)
	require.NoError(t, err)
	readings = new(atomic.Int64)
	return New(Options{
		Source: &hooked{registry.OpenDir(d, z), func() { readings.Add(1) }}, MaxBytes: 1 << 30, CacheDir: cache,
		CacheName: registry.CacheName(d, z), MaxDiskBytes: 1 << 30, Bucket: b,
	}), readings
}

// finishedDays writes ten days, and returns their rows and a window of days that are finished.
func finishedDays(t testing.TB) (dir string, rows, window []drawnRow) {
	t.Helper()
	rows = quarterly(0, 96*10)
	for i, r := range rows {
		if r.Row["State"] == "Claimed" {
			r.Row[snapshots.UsageColumn] = float64(i%9) / 8
		}
	}
	dir = t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: plain(rows)})
	return dir, rows, rows[2*10 : 2*96*6-8]
}

func copyOf(t testing.TB, dir string) string {
	t.Helper()
	there := t.TempDir()
	require.NoError(t, os.CopyFS(there, os.DirFS(dir)))
	return there
}

func objects(t testing.TB, o bucket.Options) (keys []string) {
	t.Helper()
	all, err := buckettest.Open(t, o).List(t.Context(), "")
	require.NoError(t, err)
	for _, object := range all {
		keys = append(keys, object.Key)
	}
	return keys
}

func requireSameUsage(t testing.TB, a, b []*Usage) {
	t.Helper()
	require.Equal(t, len(a), len(b))
	for i := range a {
		require.True(t, bytes.Equal(writeParts(a[i].stored()), writeParts(b[i].stored())), "day %d", i)
	}
}

// What one process made of finished days, another one uses, which reads no row: on another machine, with its own copy
// of the snapshots, with and without a directory for its cache.
func TestSecondReplicaReadsNoRow(t *testing.T) {
	server := buckettest.Start(t)
	dir, rows, window := finishedDays(t)
	o := server.Bucket(t)
	first, readings := replica(t, dir, "UTC", "", o)
	defer first.Close()
	want := load(t, first, window)
	require.EqualValues(t, 6, want.Work.Read)
	wantUsage, notices, err := first.Usage(t.Context(), want, 0, len(want.Days))
	require.NoError(t, err)
	require.Empty(t, notices)
	require.EqualValues(t, len(want.Days), readings.Load())
	keys := objects(t, o)
	require.Len(t, keys, 2*len(want.Days))
	for _, key := range keys {
		require.Regexp(t, `^(segments/14|usages/7)/2025-09-0\d-[0-9a-f]{32}$`, key)
	}

	cache := t.TempDir()
	for _, c := range []struct{ name, cache string }{{"memory only", ""}, {"with a directory", cache}} {
		t.Run(c.name, func(t *testing.T) {
			second, readings := replica(t, copyOf(t, dir), "UTC", c.cache, o)
			defer second.Close()
			v := load(t, second, window)
			requireEqual(t, ask(rows[:2*96*6]), v)
			require.Equal(t, Work{Shared: 6}, v.Work)
			require.Empty(t, v.Notices)
			blocks, notices, err := second.Usage(t.Context(), v, 0, len(v.Days))
			require.NoError(t, err)
			require.Empty(t, notices)
			requireSameUsage(t, wantUsage, blocks)
			require.Zero(t, readings.Load(), "it reads rows")
		})
	}
	t.Run("from its directory afterwards", func(t *testing.T) {
		o := o
		o.Endpoint = nobody(t)
		third, readings := replica(t, dir, "UTC", cache, o)
		defer third.Close()
		v := load(t, third, window) // by the path it is another source
		require.EqualValues(t, 6, v.Work.Read)
		require.NotZero(t, readings.Load())
	})
	require.Equal(t, keys, objects(t, o))
}

// The directory is a cache above the bucket: days that came from the bucket are available when the bucket is not.
func TestDirectoryAboveBucket(t *testing.T) {
	dir, rows, window := finishedDays(t)
	o, cache := buckettest.Start(t).Bucket(t), t.TempDir()
	for i, want := range []Work{{Read: 6}, {Shared: 6}, {OnDisk: 6}} {
		tl, _ := replica(t, dir, "UTC", map[bool]string{true: cache}[i > 0], o)
		if i == 2 {
			require.NoError(t, tl.Close())
			o.Endpoint = nobody(t)
			tl, _ = replica(t, dir, "UTC", cache, o)
		}
		v := load(t, tl, window)
		want.Rows = v.Work.Rows
		require.Equal(t, want, v.Work)
		require.Empty(t, v.Notices)
		requireEqual(t, ask(rows[:2*96*6]), v)
		_, _, err := tl.Usage(t.Context(), v, 0, len(v.Days))
		require.NoError(t, err)
		require.NoError(t, tl.Close())
	}
}

// nobody is an endpoint without a listening server.
func nobody(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return "http://" + listener.Addr().String()
}

// Of eight that make the same day at once exactly one puts it and its usage into the bucket, and all answer alike.
func TestRaceOfBuilders(t *testing.T) {
	server := buckettest.Start(t)
	dir, rows, _ := finishedDays(t)
	o := server.Bucket(t)
	proxy := buckettest.NewProxy(t, server, false)
	o.Endpoint = proxy.Endpoint
	var won atomic.Int64
	const builders = 8
	proxy.Set(func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, r)
		if r.Method == http.MethodPut && answer.Code == http.StatusOK {
			won.Add(1)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
	at := rows[2*96*2+100].at
	var wait sync.WaitGroup
	for range builders {
		wait.Go(func() {
			tl, _ := replica(t, dir, "UTC", "", o)
			defer tl.Close()
			v, err := tl.Load(t.Context(), at, at)
			if err != nil || len(v.Days) != 1 || len(v.Days[0].Times) != 96 || len(v.Notices) > 0 {
				t.Error(err, v)
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 2, won.Load())
	require.Len(t, objects(t, o), 2)
}

// Objects that are damaged, foreign or in an earlier format are ignored, reported, and left in place.
func TestObjectsNotBelieved(t *testing.T) {
	server := buckettest.Start(t)
	dir, rows, window := finishedDays(t)
	for name, harm := range map[string]func(key string, data, other []byte) []byte{
		"a byte":      func(string, []byte, []byte) []byte { return []byte("g") },
		"foreign":     func(string, []byte, []byte) []byte { return []byte("PAR1 something else") },
		"cut":         func(_ string, data, _ []byte) []byte { return data[:len(data)-7] },
		"a bit":       func(_ string, data, _ []byte) []byte { data[len(data)-9] ^= 4; return data },
		"another day": func(_ string, _, other []byte) []byte { return other },
		"other format": func(_ string, data, _ []byte) []byte {
			return append([]byte("gpureports segment 5"), data[bytes.IndexByte(data, '\n'):]...)
		},
		"a header of nonsense": func(_ string, data, _ []byte) []byte {
			return append(data[:bytes.IndexByte(data, '\n')+1], "{}\n"...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := server.Bucket(t)
			maker, _ := replica(t, dir, "UTC", "", o)
			load(t, maker, window)
			require.NoError(t, maker.Close())
			b := buckettest.Open(t, o)
			keys := objects(t, o)
			other, _, err := b.Get(t.Context(), keys[0])
			require.NoError(t, err)
			harmed := map[string][]byte{}
			for _, key := range keys[2:5] {
				data, _, err := b.Get(t.Context(), key)
				require.NoError(t, err)
				harmed[key] = harm(key, data, other)
				_, err = b.Put(t.Context(), key, harmed[key], "")
				require.NoError(t, err)
			}
			tl, _ := replica(t, dir, "UTC", "", o)
			defer tl.Close()
			v := load(t, tl, window)
			requireEqual(t, ask(rows[:2*96*6]), v)
			require.EqualValues(t, []int64{3, 3}, []int64{v.Work.Read, v.Work.Shared})
			require.Len(t, v.Notices, 3)
			for i, key := range slices.Sorted(maps.Keys(harmed)) {
				require.Contains(t, v.Notices[i].Text, key+" is invalid")
				data, _, err := b.Get(t.Context(), key)
				require.NoError(t, err)
				require.True(t, bytes.Equal(harmed[key], data), "it was written over")
			}
		})
	}
}

// A bucket that cannot be reached, or refuses, costs time and a notice; keys that only read are enough for reading.
func TestBucketThatFails(t *testing.T) {
	server := buckettest.Start(t)
	dir, rows, window := finishedDays(t)
	want := ask(rows[:2*96*6])
	t.Run("nobody there", func(t *testing.T) {
		o := server.Bucket(t)
		o.Endpoint = nobody(t)
		tl, _ := replica(t, dir, "UTC", "", o)
		defer tl.Close()
		begin := time.Now()
		v := load(t, tl, window)
		requireEqual(t, want, v)
		require.Less(t, time.Since(begin), 25*time.Second, "days wait for it one after the other")
		require.Len(t, v.Notices, 1)
		require.Regexp(t, o.URL+` cannot be reached \(since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\)`, v.Notices[0].Text)
		require.NotContains(t, v.Notices[0].Text, buckettest.SecretKey)
		require.False(t, v.Notices[0].Warning)
		reading, _ := tl.Shared.Err()
		require.ErrorContains(t, reading, o.URL)
		require.Empty(t, load(t, tl, window).Notices, "it is all in memory")
	})
	t.Run("read only", func(t *testing.T) {
		o := server.Bucket(t)
		proxy := buckettest.NewProxy(t, server, false)
		o.Endpoint = proxy.Endpoint
		proxy.Set(func(w http.ResponseWriter, r *http.Request, server http.Handler) {
			if r.Method == http.MethodPut {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			server.ServeHTTP(w, r)
		})
		tl, _ := replica(t, dir, "UTC", "", o)
		v := load(t, tl, window[:2*96])
		require.Empty(t, v.Notices)
		_, writing := tl.Shared.Err()
		require.ErrorIs(t, writing, bucket.ErrDenied)
		require.NoError(t, tl.Close())
		proxy.Set(nil)
		maker, _ := replica(t, dir, "UTC", "", o)
		load(t, maker, window)
		require.NoError(t, maker.Close())
		again, _ := replica(t, dir, "UTC", "", o)
		defer again.Close()
		require.Equal(t, Work{Shared: 6}, load(t, again, window).Work)
	})
}

// An edit of one row of a finished day that a sample of rows misses is seen by later processes and by a running one:
// they do not use data that were shared before it.
func TestSharedDayIsEdited(t *testing.T) {
	dir, rows, window := finishedDays(t)
	o := buckettest.Start(t).Bucket(t)
	there, _ := replica(t, dir, "UTC", t.TempDir(), o)
	defer there.Close()
	load(t, there, window)
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	_, err := db.Exec("UPDATE gpu_state SET State = 'Drained', RemoteOwner = NULL, GlobalJobId = NULL WHERE rowid = 302")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	rows[301].Row["State"], rows[301].Row["RemoteOwner"], rows[301].Row["GlobalJobId"] = "Drained", nil, nil
	want := ask(rows[:2*96*6])
	later, _ := replica(t, dir, "UTC", "", o)
	defer later.Close()
	v := load(t, later, window)
	requireEqual(t, want, v)
	require.EqualValues(t, []int64{1, 5}, []int64{v.Work.Read, v.Work.Shared}, "the day alone")
	requireEqual(t, want, load(t, there, window))
}

// Replicas that share a bucket agree with the rows, however the month files change: rows come a few at a time, late,
// and into days that were finished, a month is rewritten, replicas are restarted.
func TestReplicasSayWhatTheRowsSay(testingT *testing.T) {
	server := buckettest.Start(testingT)
	o := server.Bucket(testingT)
	runs := 0
	rapid.Check(testingT, func(t *rapid.T) {
		runs++
		name := rapid.SampledFrom([]string{"UTC", "America/Chicago"}).Draw(t, "zone")
		location, err := localtime.Location(name)
		require.NoError(t, err)
		start := time.Date(2025, 10, 29, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 4).Draw(t, "day")).UnixMicro()
		rows := drawPool(t, location, start)
		dir := testingT.TempDir()
		shared := o
		shared.URL += fmt.Sprintf("/%d", runs)
		var replicas [2]*Timeline
		caches := [2]string{testingT.TempDir(), ""}
		defer func() {
			for _, tl := range replicas {
				if tl != nil {
					_ = tl.Close()
				}
			}
		}()
		for from := 0; from < len(rows); {
			to := min(len(rows), from+rapid.SampledFrom([]int{10, 50, 200}).Draw(t, "rows"))
			appendDrawn(testingT, dir, rows[from:to])
			from = to
			rewrite := rapid.IntRange(0, 3).Draw(t, "rewritten") == 0
			if rewrite {
				n := rapid.IntRange(0, to-1).Draw(t, "row")
				rewritten := slices.Clone(rows[:to])
				rewritten[n].Row = maps.Clone(rewritten[n].Row)
				rewritten[n].Row["RemoteOwner"] = rapid.SampledFrom([]string{"carol", "dave"}).Draw(t, "owner")
				copy(rows, rewritten)
				for _, old := range must(filepath.Glob(filepath.Join(dir, "gpu_state_*.db"))) {
					require.NoError(t, os.Remove(old))
				}
				appendDrawn(testingT, dir, rows[:to])
			}
			for i := range replicas {
				if replicas[i] != nil && (rapid.IntRange(0, 2).Draw(t, "restart") > 0 || rewrite && caches[i] != "") {
					continue // days on disk are compared by a sample of their rows only
				}
				if replicas[i] != nil {
					require.NoError(t, replicas[i].Close())
				}
				replicas[i], _ = replica(testingT, dir, name, caches[i], shared)
			}
			want := ask(rows[:to])
			if len(want.times) == 0 {
				continue // all rows are of slots that are left out
			}
			for _, tl := range replicas {
				v, err := tl.Load(testingT.Context(), want.times[0], want.times[len(want.times)-1])
				require.NoError(t, err)
				requireEqual(t, want, v)
				require.NotContains(t, fmt.Sprint(v.Notices), "bucket")
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// appendDrawn appends rows to their month files.
func appendDrawn(t testing.TB, dir string, rows []drawnRow) {
	t.Helper()
	files := map[string][]snapshotstest.Row{}
	for _, r := range rows {
		file := "gpu_state_" + r.Row["timestamp"].(string)[:7] + ".db"
		files[file] = append(files[file], r.Row)
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		db := snapshotstest.Open(t, dir, file, snapshotstest.Schema)
		snapshotstest.Append(t, db, snapshotstest.Schema, files[file]...)
		require.NoError(t, db.Close())
	}
}

// A day that a process saw grow is shared once it is finished.
func TestGrownDayIsShared(t *testing.T) {
	dir := t.TempDir()
	rows := quarterly(0, 96*2+20)
	appendDrawn(t, dir, rows[:150])
	o := buckettest.Start(t).Bucket(t)
	tl, _ := replica(t, dir, "UTC", "", o)
	defer tl.Close()
	load(t, tl, rows[:150])
	appendDrawn(t, dir, rows[150:2*96]) // the day's last row, and none after it
	load(t, tl, rows[:2*96])
	date := pool.Time(rows[0].at).Format(time.DateOnly)
	holds := func() bool {
		return slices.ContainsFunc(objects(t, o), func(key string) bool { return strings.Contains(key, date) })
	}
	require.False(t, holds())
	appendDrawn(t, dir, rows[2*96:])
	requireEqual(t, ask(rows), load(t, tl, rows))
	require.True(t, holds())
	second, readings := replica(t, dir, "UTC", "", o)
	defer second.Close()
	v, err := second.Load(t.Context(), rows[20].at, rows[100].at)
	require.NoError(t, err)
	require.Zero(t, readings.Load())
	require.EqualValues(t, 1, v.Work.Shared)
}

// A replica needs nothing but the days that were built ahead of time; existing objects are not rebuilt.
func TestBuild(t *testing.T) {
	dir, rows, window := finishedDays(t)
	o := buckettest.Start(t).Bucket(t)
	var finished []int32
	for round := range 2 {
		builder, readings := replica(t, dir, "UTC", t.TempDir(), o)
		var err error
		finished, err = builder.FinishedDays(t.Context(), rows[0].at, rows[len(rows)-1].at)
		require.NoError(t, err)
		require.Len(t, finished, 9)
		for _, date := range finished {
			there, read, err := builder.Build(t.Context(), date, true)
			require.NoError(t, err)
			require.Equal(t, round > 0, there)
			require.Zero(t, read)
			there, read, err = builder.Build(t.Context(), date, false)
			require.NoError(t, err)
			require.Equal(t, round > 0, there)
			require.Equal(t, round == 0, read > 0)
		}
		require.EqualValues(t, round == 0, readings.Load() > 0)
		require.NoError(t, builder.Close())
	}
	tl, readings := replica(t, dir, "UTC", "", o)
	defer tl.Close()
	v := load(t, tl, window)
	requireEqual(t, ask(rows[:2*96*6]), v)
	_, notices, err := tl.Usage(t.Context(), v, 0, len(v.Days))
	require.NoError(t, err)
	require.Empty(t, notices)
	require.Zero(t, readings.Load())

	o.Endpoint = nobody(t)
	alone, _ := replica(t, dir, "UTC", "", o)
	defer alone.Close()
	_, _, err = alone.Build(t.Context(), finished[3], false)
	require.ErrorIs(t, err, bucket.ErrUnreachable)
}

// Days with incomplete snapshots are shared, too, as they count: the builder and a second replica agree with the rows,
// and the replica reads none.
func TestBuildOfIncompleteSnapshots(t *testing.T) {
	var files []snapshotstest.Row
	var want []drawnRow
	for n := range 4 * 96 {
		machines, few := 7, n == 50 || n == 95 || n == 96 || n == 200 // two of them around midnight
		if few {
			machines = 2
		}
		s := shot{at: 20300*pool.Day + pool.Micros(n)*15*pool.Minute, jobs: map[string]string{}}
		for m := range machines {
			s.jobs[fmt.Sprint("m", m)] = fmt.Sprintf("ap#%d.%d#1753920000", n/8, m%2)
			if n%8 < 3 {
				s.jobs[fmt.Sprint("m", m)] = ""
			}
		}
		if slices.Contains([]int{6, 11, 12, 24, 25}, n/8) { // the jobs go on while machines are missing
			for m := range s.jobs {
				s.jobs[m] = "ap#1.0#1753920000"
			}
		}
		for _, r := range s.rows() {
			files = append(files, r.Row)
			if !few {
				want = append(want, r)
			}
		}
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-07.db": files})
	o := buckettest.Start(t).Bucket(t)
	for round := range 2 {
		builder, _ := replica(t, dir, "UTC", "", o)
		finished, err := builder.FinishedDays(t.Context(), want[0].at, want[len(want)-1].at)
		require.NoError(t, err)
		require.Len(t, finished, 3)
		for _, date := range finished {
			for step, list := range []bool{true, false, true} {
				there, _, err := builder.Build(t.Context(), date, list)
				require.NoError(t, err)
				require.Equal(t, round > 0 || step == 2, there)
			}
		}
		require.NoError(t, builder.Close())
	}
	tl, readings := replica(t, dir, "UTC", "", o)
	defer tl.Close()
	v, err := tl.Load(t.Context(), want[0].at+3*pool.Hour, 20302*pool.Day-pool.Hour)
	require.NoError(t, err)
	_, notices, err := tl.Usage(t.Context(), v, 0, len(v.Days))
	require.NoError(t, err)
	require.Empty(t, notices)
	require.Zero(t, readings.Load())
	end, _ := slices.BinarySearchFunc(want, 20302*pool.Day, func(r drawnRow, at pool.Micros) int { return int(r.at - at) })
	requireEqual(t, ask(want[:end]), v)
}

// A day that the cache directory holds is built from there: it was derived while there was no bucket.
func TestBuildFromDisk(t *testing.T) {
	dir, rows, window := finishedDays(t)
	o, cache := buckettest.Start(t).Bucket(t), t.TempDir()
	apart := o
	apart.Endpoint = nobody(t)
	tl, _ := replica(t, dir, "UTC", cache, apart)
	v := load(t, tl, window)
	_, _, err := tl.Usage(t.Context(), v, 0, len(v.Days))
	require.NoError(t, err)
	require.NoError(t, tl.Close())
	require.Empty(t, objects(t, o))

	builder, readings := replica(t, dir, "UTC", cache, o)
	defer builder.Close()
	there, read, err := builder.Build(t.Context(), pool.DayOf(rows[0].at)+2, false)
	require.NoError(t, err)
	require.False(t, there)
	require.Zero(t, read)
	require.Zero(t, readings.Load())
	require.Len(t, objects(t, o), 2)
	there, _, err = builder.Build(t.Context(), pool.DayOf(rows[0].at)+2, false)
	require.NoError(t, err)
	require.True(t, there)
}

// Rows are edited after a day was looked for in the bucket, and before it is read: what other servers find under the
// rows of before is of them, and what they find under the edited rows, too.
func TestEditBetweenLookingAndReading(t *testing.T) {
	dir, rows, window := finishedDays(t)
	original := copyOf(t, dir)
	o := buckettest.Start(t).Bucket(t)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	zone, err := localtime.Parse([]byte(`"UTC"`))
	require.NoError(t, err)
	edit := sync.OnceFunc(func() {
		db := snapshotstest.Open(t, dir, september, snapshotstest.Schema, "busy_timeout=60000")
		_, err := db.Exec("UPDATE gpu_state SET State = 'Drained', RemoteOwner = NULL, GlobalJobId = NULL " +
			"WHERE State = 'Claimed'")
		require.NoError(t, err)
		require.NoError(t, db.Close())
	})
	tl := New(Options{Source: &hooked{registry.OpenDir(d, zone), edit}, MaxBytes: 1 << 30,
		Bucket: buckettest.Open(t, o)})
	defer tl.Close()
	want := load(t, tl, window)

	other, _ := replica(t, original, "UTC", "", o)
	defer other.Close()
	requireEqual(t, ask(rows[:2*96*6]), load(t, other, window))
	third, _ := replica(t, dir, "UTC", "", o)
	defer third.Close()
	got := load(t, third, window)
	require.Positive(t, got.Work.Shared)
	require.Equal(t, len(want.Days), len(got.Days))
	for i, d := range want.Days {
		require.Equal(t, encode(d, tl.Names), encode(got.Days[i], third.Names), "day %d", i)
	}
}

// Rows are appended late, older than what stands before them. A process that saw them come and one that starts later
// find the same, with a cache directory and without.
func TestLateRowsInEveryProcess(t *testing.T) {
	rows := quarterly(0, 96*10)
	late := slices.Clone(rows[2*96*2 : 2*96*2+2])
	dir, cache := t.TempDir(), t.TempDir()
	db := snapshotstest.Open(t, dir, september, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema,
		plain(append(slices.Clone(rows[:2*96*2]), rows[2*96*2+2:2*96*5]...))...)
	running := open(t, dir, "UTC", cache)
	defer running.Close()
	load(t, running, rows)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(late)...)
	load(t, running, rows)
	snapshotstest.Append(t, db, snapshotstest.Schema, plain(rows[2*96*5:])...)
	requireEqual(t, ask(rows), load(t, running, rows))
	for _, with := range []string{cache, ""} {
		started := open(t, dir, "UTC", with)
		defer started.Close()
		v := load(t, started, rows)
		requireEqual(t, ask(rows), v)
		require.Equal(t, load(t, running, rows).Notices, v.Notices)
	}
}
