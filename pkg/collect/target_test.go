package collect

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// target makes a bucket whose keys are in the environment.
func target(t *testing.T) (Target, *bucket.Bucket) {
	t.Helper()
	o := buckettest.Start(t).Bucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	return Target{URL: o.URL, Endpoint: o.Endpoint, PathStyle: o.PathStyle}, buckettest.Open(t, o)
}

// stored counts the rows of each timestamp in the bucket: of days, and of snapshots that no day has.
func stored(t *testing.T, b *bucket.Bucket) map[string]int {
	t.Helper()
	objects, err := b.List(t.Context(), "")
	require.NoError(t, err)
	rows := map[string]int{}
	for _, o := range objects { // days come first
		data, _, err := b.Get(t.Context(), o.Key)
		require.NoError(t, err)
		times, err := parquet.Timestamps(t.Context(), bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		for timestamp, n := range times {
			require.Zero(t, rows[timestamp], timestamp)
			rows[timestamp] = n
		}
	}
	return rows
}

// Snapshots go into the bucket, and when a day is over, into its object.
func TestCollectIntoBucket(t *testing.T) {
	to, b := target(t)
	o := fake(t, "machines:2")
	o.To = to
	now := clock("2026-07-01T12:00:00Z", "2026-07-01T23:55:00Z", "2026-07-02T00:10:00Z", "2026-07-02T00:25:00Z")
	want := map[string]int{}
	for range 4 {
		result, err := run(t.Context(), o, now)
		require.NoError(t, err)
		require.Empty(t, result.Notes)
		want[result.Timestamp] = 2 * rowsPerMachine
	}
	require.Equal(t, want, stored(t, b))
	objects, err := b.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, objects, 3)
	require.Equal(t, "date=2026-07-01/snapshots.parquet", objects[0].Key)
	require.Equal(t, "new/date=2026-07-02/20260702T001001.000000Z-20260702T001001.000000.parquet", objects[1].Key)
	files, err := filepath.Glob(filepath.Join(o.SnapshotDir, "gpu_state*"))
	require.NoError(t, err)
	require.Empty(t, files)

	// a run that was killed after its PUT is in the log
	log, err := sql.Open("sqlite", filepath.Join(o.SnapshotDir, runlog.Name))
	require.NoError(t, err)
	_, err = log.Exec("UPDATE runs SET rows = NULL, seconds = NULL WHERE rowid = (SELECT max(rowid) FROM runs)")
	require.NoError(t, err)
	require.NoError(t, log.Close())
	_, err = run(t.Context(), o, clock("2026-07-02T00:40:00Z"))
	require.NoError(t, err)
	after := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, "16 killed after the snapshot was written",
		one[string](t, after, "SELECT rows || ' ' || notes FROM runs WHERE notes IS NOT NULL"))
}

// An unreachable bucket: the run fails, and says why, without a key.
func TestCollectIntoUnreachableBucket(t *testing.T) {
	to, _ := target(t)
	o := fake(t, "machines:1")
	o.To = to
	o.To.Endpoint = "http://127.0.0.1:1"
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, bucket.ErrUnreachable)
	require.ErrorContains(t, err, to.URL)
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	reason := one[string](t, log, "SELECT error FROM runs")
	require.Contains(t, reason, to.URL)
	require.NotContains(t, reason, buckettest.SecretKey)
}

// A collector is killed at random moments: each snapshot is there as a whole, or not at all, and none twice.
// A PUT that was on its way may arrive after the next run has looked for it: the log then calls the run killed, and the
// snapshot is there all the same.
func TestKilledIntoBucket(t *testing.T) {
	to, b := target(t)
	o := fake(t, "machines:50")
	t.Setenv("COLLECT_INTO", o.SnapshotDir)
	t.Setenv("COLLECT_TO", to.URL)
	t.Setenv("COLLECT_ENDPOINT", to.Endpoint)
	for n := range 10 {
		killedAfter(t, time.Duration(20+30*n)*time.Millisecond)
	}
	require.NoError(t, os.Unsetenv("COLLECT_INTO"))
	o.To = to
	_, err := Run(t.Context(), o)
	require.NoError(t, err)
	found := stored(t, b)
	for timestamp, rows := range found {
		require.Equal(t, 50*rowsPerMachine, rows, timestamp)
	}
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	logged := one[int](t, log, "SELECT count(*) FROM runs WHERE timestamp IS NOT NULL")
	killed := one[int](t, log, "SELECT count(*) FROM runs WHERE error LIKE 'killed%'")
	require.LessOrEqual(t, logged, len(found), fmt.Sprint(found))
	require.LessOrEqual(t, len(found), logged+killed, fmt.Sprint(found))
}
