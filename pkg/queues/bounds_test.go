package queues

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/timeline"
)

const parquetName = "job_pressure_2025-10.parquet"

// parquetStore opens a store of a directory with one Parquet file, which read reads.
func parquetStore(t *testing.T, most int64, read EachRow) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, parquetName)
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return NewStore(Options{Root: root, Path: dir, Names: timeline.NewNames(), MaxBytes: most, Parquet: read}), path
}

var october1 = pool.Window{From: 1_759_276_800 * pool.Second, To: 1_759_276_800*pool.Second + pool.Day}

// rowOf is a row of a job with a number, whose request is of a memory.
func rowOf(n, memoryMB int) []string {
	row := make([]string, len(columns))
	row[id], row[schedd], row[owner] = fmt.Sprintf("ap#1.%d#1759276800", n), "ap", "u"
	row[memory] = fmt.Sprint(memoryMB)
	row[firstSeen], row[lastSeen] = "1759276800", "1759280400"
	return row
}

// A file whose reading hangs holds another load only until that one's deadline.
func TestWaitingForAFileEndsAtTheOwnDeadline(t *testing.T) {
	reading, leave := make(chan bool), make(chan bool)
	s, _ := parquetStore(t, 1<<20, func(context.Context, io.ReaderAt, int64, []string,
		func(func(string) bool) error, func([]string)) error {
		reading <- true
		<-leave
		return nil
	})
	first := make(chan error)
	go func() {
		_, err := s.Load(context.Background(), october1)
		first <- err
	}()
	<-reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Load(ctx, october1)
	require.ErrorIs(t, err, context.Canceled)
	close(leave)
	require.NoError(t, <-first)
}

// A pipe and a directory with the name of a queue file are refused, without waiting for a writer.
func TestPipeAsQueueFile(t *testing.T) {
	for _, put := range []func(string) error{
		func(path string) error { return syscall.Mkfifo(path, 0o600) },
		func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		s, path := parquetStore(t, 1<<20, nil)
		require.NoError(t, os.Remove(path))
		require.NoError(t, put(path))
		_, err := s.Load(t.Context(), october1)
		require.ErrorContains(t, err, parquetName+" cannot be read: it is not a regular file")
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
}

// Equal rows one after another, which a Parquet file stores in no space, count once.
func TestEqualRowsCountOnce(t *testing.T) {
	s, path := parquetStore(t, 1<<20, parquet.EachRow)
	out, err := os.Create(path)
	require.NoError(t, err)
	w := parquet.NewWriter(out, parquet.QueueSchema)
	row := []any{"ap#1.0#1759276800", "ap", "u", 1.0, 1.0, 1.0, nil, int64(1759276800), "", "idle", int64(1759276800),
		int64(1759280400)}
	for range 300_000 {
		require.NoError(t, w.Write(row))
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	v, err := s.Load(t.Context(), october1)
	require.NoError(t, err)
	require.Empty(t, v.Notices)
	require.Len(t, v.Days, 1)
	require.Len(t, v.Days[0].Rows, 1)
	require.Less(t, s.Bytes(), int64(1000))
}

// A file whose rows need more memory than the store has is an error, found while it is read, in both formats; the other
// months answer.
func TestRowsAreBoundedWhileTheyAreRead(t *testing.T) {
	const room, most = 1000 * (rowBytes + requestBytes), 1_000_000
	visited := 0
	s, path := parquetStore(t, room, func(ctx context.Context, _ io.ReaderAt, _ int64, _ []string,
		_ func(func(string) bool) error, visit func([]string)) error {
		for n := 0; n < most && ctx.Err() == nil; n++ {
			visit(rowOf(n, n))
			visited++
		}
		return ctx.Err()
	})
	_, err := s.Load(t.Context(), october1)
	require.ErrorContains(t, err, parquetName+" cannot be read: its rows need more memory than the data source has for a "+
		"queue file (0 MB): raise cacheMaxMB")
	require.LessOrEqual(t, visited, 1001)
	require.Zero(t, s.Bytes())

	require.NoError(t, os.Remove(path))
	var lines []line
	for i := range 3000 {
		lines = append(lines, line{job(i), 1.0, nil, 0, 0})
	}
	require.NoError(t, create(t, filepath.Dir(path), monthName, lines...).Close())
	_, err = s.Load(t.Context(), inOctober)
	require.ErrorContains(t, err, monthName+" cannot be read: its rows need more memory")
	september := strings.Replace(monthName, "10", "09", 1)
	require.NoError(t, create(t, filepath.Dir(path), september, lines[:10]...).Close())
	v, err := s.Load(t.Context(), inOctober)
	require.NoError(t, err)
	require.Len(t, v.Notices, 1)
	require.Len(t, texts(v), 10)
}

// Requests go with the rows that have them, and count as memory.
func TestRequestsGoWithTheirRows(t *testing.T) {
	version, rows := 0, 20_000
	s, path := parquetStore(t, 4<<20, func(_ context.Context, _ io.ReaderAt, _ int64, _ []string,
		_ func(func(string) bool) error, visit func([]string)) error {
		for n := range rows {
			visit(rowOf(n, version*rows+n))
		}
		return nil
	})
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before int64
	for version = range 20 {
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", version+1)), 0o600))
		v, err := s.Load(t.Context(), october1)
		require.NoError(t, err)
		r := v.Days[0].Rows[rows-1]
		require.InDelta(t, version*rows+rows-1, v.Requests[r.File][r.Request].Memory, 0)
		require.EqualValues(t, rows*(rowBytes+requestBytes)+v.Days[0].Bytes()-rows*rowBytes, s.Bytes())
		if version == 0 {
			before = heap()
		}
	}
	require.Less(t, heap()-before, int64(6<<20), "nineteen more versions of the requests would take 20 MB")
	runtime.KeepAlive(s)
}

// A QDate that is after first_seen, or earlier than the id's by more than clocks differ, is replaced by the id's.
func TestQDateIsBoundedByTheID(t *testing.T) {
	const id, first = 1_759_270_000, 1_759_276_800
	for qdate, want := range map[int]uint32{1: id, id - 121: id, id - 120: id - 120, id + 5: id + 5, first: first,
		first + 1: id} {
		s, _ := parquetStore(t, 1<<20, func(_ context.Context, _ io.ReaderAt, _ int64, _ []string,
			_ func(func(string) bool) error, visit func([]string)) error {
			row := rowOf(0, 1)
			row[0], row[queued] = fmt.Sprintf("ap#1.0#%d", id), fmt.Sprint(qdate)
			visit(row)
			return nil
		})
		v, err := s.Load(t.Context(), october1)
		require.NoError(t, err)
		require.Equal(t, want, v.Days[0].Rows[0].QDate, qdate)
	}
}
