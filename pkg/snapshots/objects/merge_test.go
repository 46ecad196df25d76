package objects_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// begin is the first snapshot of the tests.
var begin = time.Date(2026, 7, 1, 22, 0, 0, 123456000, time.UTC)

func timeOf(n int) time.Time { return begin.Add(time.Duration(n) * 15 * time.Minute) }

func timestampOf(n int) string { return timeOf(n).Format("2006-01-02 15:04:05.000000") }

// snapshotRows are the rows of the n-th snapshot.
func snapshotRows(n int) (rows [][]any) {
	for g := range 3 {
		rows = append(rows, []any{fmt.Sprintf("slot1_%d@m", g), fmt.Sprintf("GPU-%d", g), nil, "Claimed", "NVIDIA L40S",
			int64(46068), "", 0.5, "m", fmt.Sprintf("user%d@x", n/3), fmt.Sprintf("ap#%d.0#1", n/3), nil, int64(1),
			timestampOf(n), int64(4), int64(16000), "Dynamic", nil, nil})
	}
	return rows
}

// tape keeps the snapshots of a reading.
type tape struct {
	rows  []snapshots.Row
	times []int64
	sizes []int
}

func (*tape) Begin(bool)                 {}
func (r *tape) Distinct(s snapshots.Row) { r.rows = append(r.rows, append(snapshots.Row{}, s...)) }
func (r *tape) Snapshot(s snapshots.Snapshot) error {
	r.times, r.sizes = append(r.times, s.Time), append(r.sizes, len(s.Rows))
	return nil
}

// requireSnapshots requires that a source holds the first n snapshots, each once.
func requireSnapshots(t *testing.T, source snapshots.Source, n int) {
	t.Helper()
	var all tape
	for try := 0; ; try++ {
		all = tape{}
		state, err := source.Look(t.Context())
		require.NoError(t, err)
		for _, date := range state.Dates() {
			if _, err = state.Rows(t.Context(), date, snapshots.Known{}, &all); err != nil {
				break
			}
		}
		if err == nil {
			break
		}
		require.ErrorIs(t, err, snapshots.ErrStale)
		require.Less(t, try, 10)
	}
	require.Len(t, all.times, n)
	for i, at := range all.times {
		require.Equal(t, begin.Add(time.Duration(i)*15*time.Minute).UnixMicro(), at)
		require.Equal(t, 3, all.sizes[i], "snapshot %d", i)
	}
}

// Wherever a collector dies while it puts snapshots and merges days: readers find every snapshot that was put once,
// at once and after the next merge.
func TestCrashes(t *testing.T) {
	server := buckettest.Start(t)
	proxy := buckettest.NewProxy(t, server, false)
	for name, fault := range map[string]buckettest.Fault{"before a request": buckettest.Gone,
		"after a request": buckettest.Lost} {
		t.Run(name, func(t *testing.T) {
			for point := 0; ; point++ {
				o := server.Bucket(t)
				calm := buckettest.Open(t, o)
				reader := objects.Open(calm, localtime.UTC)
				for n := range 12 { // 8 of the first day
					require.NoError(t, objects.PutSnapshot(t.Context(), calm, timeOf(n), timestampOf(n), snapshotRows(n)))
				}
				requireSnapshots(t, reader, 12)
				o.Endpoint = proxy.Endpoint
				killed := buckettest.Open(t, o)
				ctx, kill := context.WithCancel(t.Context())
				proxy.Set(dieAt(point, kill, fault))
				_, err := objects.Merge(ctx, killed, "2026-07-02")
				ended := ctx.Err() == nil
				kill()
				proxy.Set(nil)
				if ended {
					require.NoError(t, err)
				}
				requireSnapshots(t, reader, 12)
				requireSnapshots(t, objects.Open(calm, localtime.UTC), 12)
				_, err = objects.Merge(t.Context(), calm, "2026-07-02")
				require.NoError(t, err)
				requireSnapshots(t, reader, 12)
				left, err := calm.List(t.Context(), "")
				require.NoError(t, err)
				require.Len(t, left, 5, "a day, and four snapshots of the next")
				if ended {
					require.Greater(t, point, 15)
					return
				}
			}
		})
	}
}

// dieAt lets point requests pass, and then kills the client.
func dieAt(point int, kill func(), fault buckettest.Fault) buckettest.Fault {
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		mu.Lock()
		point--
		now := point == -1
		mu.Unlock()
		if point >= 0 {
			server.ServeHTTP(w, r)
			return
		}
		defer kill()
		if now {
			fault(w, r, server)
		}
		panic(http.ErrAbortHandler)
	}
}

// Several collectors merge at the same time, with a reader: nothing is lost or doubled, for the reader never.
func TestMergesMeet(t *testing.T) {
	server := buckettest.Start(t)
	b := server.Open(t)
	const count = 40
	for n := range count {
		require.NoError(t, objects.PutSnapshot(t.Context(), b, timeOf(n), timestampOf(n), snapshotRows(n)))
	}
	reader := objects.Open(b, localtime.UTC)
	var wait sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wait.Go(func() {
			if _, err := objects.Merge(t.Context(), b, "2026-07-09"); err != nil {
				t.Error(err)
			}
		})
	}
	go func() { wait.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		requireSnapshots(t, reader, count)
	}
	left, err := b.List(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"date=2026-07-01/snapshots.parquet", "date=2026-07-02/snapshots.parquet"}, keysOf(left))
	rows, err := objects.CountSnapshot(t.Context(), b, timestampOf(7))
	require.NoError(t, err)
	require.Equal(t, 3, rows)
}

func keysOf(objects []bucket.Object) (keys []string) {
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	return keys
}

// An object without a timestamp is of no day: it is not removed as merged.
func TestMergeKeepsWhatHasNoTimestamp(t *testing.T) {
	b := buckettest.Start(t).Open(t)
	rows := snapshotRows(0)
	for _, row := range rows {
		row[13] = nil
	}
	require.NoError(t, objects.PutSnapshot(t.Context(), b, timeOf(0), timestampOf(0), rows))
	_, err := objects.Merge(t.Context(), b, "2026-07-09")
	require.ErrorContains(t, err, "no row has a timestamp")
	left, err := b.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// Objects and folders whose names begin with _ or . are unfinished work of other programs, at any level.
func TestHiddenObjects(t *testing.T) {
	b := buckettest.Start(t).Open(t)
	data, err := parquet.Encode(parquet.Schema, snapshotRows(20))
	require.NoError(t, err)
	day := "date=" + timestampOf(20)[:len("2026-07-01")]
	for _, key := range []string{day + "/a.parquet", day + "/_b.parquet", day + "/.c.parquet", day + "/_tmp/d.parquet",
		day + "/e/.f/g.parquet", "new/" + day + "/_h.parquet", "_new/" + day + "/i.parquet"} {
		_, err = b.Put(t.Context(), key, data, "")
		require.NoError(t, err)
	}
	state, err := objects.Open(b, localtime.UTC).Look(t.Context())
	require.NoError(t, err)
	parts, err := state.Parts(t.Context())
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.Equal(t, day+"/a.parquet", parts[0].Name)
}

// A day in a bucket is identified by its object's ETag: equal objects anywhere are the same day, and an edit of which
// sizes and statistics in the footer show nothing is another one.
func TestDayIsItsETag(t *testing.T) {
	server := buckettest.Start(t)
	var rows [][]any
	for n := 8; n < 40; n++ { // from midnight on
		rows = append(rows, snapshotRows(n)...)
	}
	edited := slices.Clone(rows) // two rows swap their users: of the same bytes, with the same smallest and largest values
	user := slices.IndexFunc(parquet.Schema, func(f parquet.Field) bool { return f.Name == "RemoteOwner" })
	other := slices.IndexFunc(rows, func(row []any) bool { return row[user] != rows[0][user] })
	require.Positive(t, other)
	edited[0], edited[other] = slices.Clone(rows[0]), slices.Clone(rows[other])
	edited[0][user], edited[other][user] = rows[other][user], rows[0][user]

	date := pool.DayOf(timeOf(20).UnixMicro())
	put := func(b *bucket.Bucket, rows [][]any) {
		t.Helper()
		data, err := parquet.Encode(parquet.Schema, rows)
		require.NoError(t, err)
		_, err = b.Put(t.Context(), "date="+timestampOf(20)[:len("2026-07-01")]+"/x.parquet", data, "")
		require.NoError(t, err)
	}
	identify := func(source snapshots.Source) (identity string, key snapshots.Key) {
		t.Helper()
		state, err := source.Look(t.Context())
		require.NoError(t, err)
		key, err = state.Key(t.Context(), date)
		require.NoError(t, err)
		return state.Identity(key), key
	}
	b := server.Open(t)
	put(b, rows)
	source := objects.Open(b, localtime.UTC)
	want, key := identify(source)
	same, _ := identify(objects.Open(b, localtime.UTC))
	require.Equal(t, want, same, "of another process")
	elsewhere := server.Open(t)
	put(elsewhere, rows)
	same, _ = identify(objects.Open(elsewhere, localtime.UTC))
	require.Equal(t, want, same, "an equal object in another bucket")

	put(b, edited)
	later := objects.Open(b, localtime.UTC)
	for name, s := range map[string]snapshots.Source{"running": source, "started later": later} {
		changed, _ := identify(s)
		require.NotEqual(t, want, changed, name)
		state, err := s.Look(t.Context())
		require.NoError(t, err)
		holds, err := state.Holds(t.Context(), date, snapshots.Known{Key: key})
		require.NoError(t, err)
		require.False(t, holds, name)
	}
}

// Files from elsewhere next to the copies are not used, because a planted list could exclude every machine.
func TestMirrorHoldsCopiesOnly(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	_, err := b.Put(t.Context(), "chtc_owned", []byte("m1\n"), "")
	require.NoError(t, err)
	cache := t.TempDir()
	for range 2 { // processes
		m, err := objects.OpenMirror(b, o, cache, "chtc_owned", "masked_hosts.yaml")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(m.Path()), "masked_hosts.yaml"),
			[]byte("excluded_hosts: {m: x}"), 0o600))
		require.NoError(t, m.Refresh(t.Context()))
		require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
		text, err := os.ReadFile(filepath.Join(m.Path(), "chtc_owned"))
		require.NoError(t, err)
		require.Equal(t, "m1\n", string(text))
		require.NoError(t, m.Close())
	}
}

// A cache directory that cannot be used costs copies in each process, and no answer.
func TestMirrorWithoutItsDirectory(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	_, err := b.Put(t.Context(), "chtc_owned", []byte("m1\n"), "")
	require.NoError(t, err)
	cache := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(cache, nil, 0o600))
	m, err := objects.OpenMirror(b, o, cache, "chtc_owned")
	require.NoError(t, err)
	require.NoError(t, m.Refresh(t.Context()))
	require.FileExists(t, filepath.Join(m.Path(), "chtc_owned"))
	require.NoError(t, m.Close())
	require.NoDirExists(t, m.Path())
}

// A folder of copies that another user made in a shared cache directory is not used: that user could change each file.
func TestMirrorOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a folder to another user")
	}
	o := buckettest.Start(t).Bucket(t)
	b := buckettest.Open(t, o)
	cache := t.TempDir()
	m, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	folder := filepath.Dir(m.Path())
	require.Equal(t, cache, filepath.Dir(folder))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "masked_hosts.yaml"), []byte("excluded_hosts: {m: x}"), 0o600))
	require.NoError(t, os.Chown(folder, 12345, 12345))
	m, err = objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	require.NotEqual(t, folder, filepath.Dir(m.Path()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
	require.NoError(t, m.Refresh(t.Context()))
	require.NoFileExists(t, filepath.Join(m.Path(), "masked_hosts.yaml"))
}

// Two processes share a cache directory. The second one cannot fetch a list at this moment, or ends: the first one
// keeps its list.
func TestMirrorsShareACacheDirectory(t *testing.T) {
	server := buckettest.Start(t)
	o := server.Bucket(t)
	_, err := buckettest.Open(t, o).Put(t.Context(), "masked_hosts.yaml", []byte("excluded_hosts: {m: broken}\n"), "")
	require.NoError(t, err)
	proxy := buckettest.NewProxy(t, server, false)
	o.Endpoint = proxy.Endpoint
	b, cache := buckettest.Open(t, o), t.TempDir()
	one, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	two, err := objects.OpenMirror(b, o, cache, "masked_hosts.yaml")
	require.NoError(t, err)
	require.NoError(t, one.Refresh(t.Context()))
	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "masked_hosts.yaml") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.ServeHTTP(w, r)
	})
	require.Error(t, two.Refresh(t.Context()))
	require.NoError(t, two.Close())
	list, err := os.ReadFile(filepath.Join(one.Path(), "masked_hosts.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(list), "broken")
}

// What one data source may read is not for one with another secret, CA, or organization.
func TestMirrorsOfOtherKeys(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b, cache := buckettest.Open(t, o), t.TempDir()
	folders := map[string]bool{}
	for _, change := range []func(){func() {}, func() { o.SecretKey = "wrong" }, func() { o.CA = "another" },
		func() { o.Organization = "2" }, func() { o.AccessKey = "another" }, func() { o.Endpoint = "https://elsewhere" }} {
		change()
		m, err := objects.OpenMirror(b, o, cache)
		require.NoError(t, err)
		folders[filepath.Dir(m.Path())] = true
		require.NotContains(t, m.Path(), o.SecretKey)
	}
	require.Len(t, folders, 6)
}

// The folder of a killed process goes, with what it has begun to copy. No process holds its lock any more.
func TestLeftoversOfMirrors(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	b, cache := buckettest.Open(t, o), t.TempDir()
	running, err := objects.OpenMirror(b, o, cache)
	require.NoError(t, err)
	killed := filepath.Join(filepath.Dir(running.Path()), "view-killed")
	require.NoError(t, os.Mkdir(killed, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(killed, ".copy-1"), []byte("half"), 0o600))
	_, err = objects.OpenMirror(b, o, cache)
	require.NoError(t, err)
	require.NoDirExists(t, killed)
	require.DirExists(t, running.Path())
}
