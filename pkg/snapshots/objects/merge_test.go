package objects_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
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
