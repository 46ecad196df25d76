package collect

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// A collector that writes one snapshot after the other is killed at random moments, COLLECT_KILLS times, while a reader
// queries all the while: every query succeeds, and every snapshot it sees is whole.
func TestKilledCollector(t *testing.T) {
	const machines = 200
	kills := 15
	if text := os.Getenv("COLLECT_KILLS"); text != "" {
		var err error
		kills, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	dir := fake(t, "machines:"+strconv.Itoa(machines)).SnapshotDir
	t.Setenv("COLLECT_INTO", dir)
	snapshots := filepath.Join(dir, "gpu_state_*.db")

	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reads := 0
	reader.Go(func() {
		for ctx.Err() == nil {
			files, err := filepath.Glob(snapshots)
			if err != nil || len(files) == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			for _, file := range files {
				if err := checkWhole(file, machines*rowsPerMachine); err != nil {
					t.Errorf("read %d of %s: %v", reads, file, err)
					return
				}
				reads++
			}
		}
	})
	for range kills {
		killedAfter(t, time.Duration(rand.Int64N(int64(400*time.Millisecond))))
	}
	cancel()
	reader.Wait()

	t.Setenv("COLLECT_INTO", "")
	_, err := Run(t.Context(), Options{SnapshotDir: dir, CondorStatus: itself()})
	require.NoError(t, err)
	files, err := filepath.Glob(snapshots)
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		require.NoError(t, checkWhole(file, machines*rowsPerMachine))
		db := readOnly(t, file)
		require.Equal(t, "ok", one[string](t, db, "PRAGMA integrity_check"))
		found += one[int](t, db, "SELECT count(DISTINCT timestamp) FROM gpu_state")
	}
	log := readOnly(t, filepath.Join(dir, runlog.Name))
	logged := one[int](t, log, "SELECT count(*) FROM runs WHERE timestamp IS NOT NULL")
	killed := one[int](t, log, "SELECT count(*) FROM runs WHERE seconds IS NULL")
	require.Zero(t, one[int](t, log, "SELECT count(*) FROM runs WHERE (rows = 1600) != (error IS NULL) OR (timestamp "+
		"IS NULL) != (rows IS NULL)"))
	require.Equal(t, logged, found)
	t.Logf("%d kills, %d of them in a run; %d snapshots, %d logged; %d reads", kills, killed, found, logged, reads)
}

// killedAfter starts a collector of its own and kills it after a while. A program that the one before was just starting
// holds its lock until it runs: then once more.
func killedAfter(t *testing.T, while time.Duration) {
	t.Helper()
	for tries := 0; ; tries++ {
		command := exec.Command(itself())
		var said bytes.Buffer
		command.Stderr = &said
		require.NoError(t, command.Start())
		killer := time.AfterFunc(while, func() { _ = command.Process.Signal(syscall.SIGKILL) })
		err := command.Wait()
		killer.Stop()
		if tries < 50 && strings.Contains(said.String(), "another collection is under way") {
			continue
		}
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL,
			"it ended by itself: %v: %s", err, said.String())
		return
	}
}

// checkWhole opens the file as a reader does and counts the rows of its snapshots.
func checkWhole(file string, rows int) error {
	db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()
	found, err := db.Query("SELECT timestamp, count(*) FROM gpu_state GROUP BY timestamp HAVING count(*) != ?", rows)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var timestamp string
		var n int
		return errors.Join(found.Scan(&timestamp, &n), errors.New(timestamp+" has "+strconv.Itoa(n)+" rows"))
	}
	return found.Err()
}

// A month file was moved away, as errors advise, while a reader kept SQLite's log from being emptied: the log is set
// aside and noted, and the new file has its own rows only, of a snapshot as of a poll.
func TestLogOfAMonthThatWasMovedAway(t *testing.T) {
	for _, rows := range []int{20, 5000} {
		dir := t.TempDir()
		path := filepath.Join(dir, "gpu_state_2026-07.db")
		take := func(timestamp, machine string, rows int) string {
			s := snapshot{timestamp: timestamp}
			for range rows {
				s.slots = append(s.slots, ad{values: map[string]any{"Name": "slot1@" + machine, "Machine": machine,
					"State": "Claimed", "AssignedGPUs": "GPU-a"}})
			}
			n, note, err := addSQLite(t.Context(), path, s)
			require.NoError(t, err)
			require.Equal(t, rows, n)
			return note
		}
		require.Empty(t, take("2026-07-01 00:00:00.000000", "old", rows))
		tx, err := readOnly(t, path).Begin()
		require.NoError(t, err)
		require.Equal(t, rows, func() (n int) {
			require.NoError(t, tx.QueryRow("SELECT count(*) FROM gpu_state").Scan(&n))
			return n
		}())
		require.Empty(t, take("2026-07-01 00:15:00.000000", "old", 20))
		require.NoError(t, os.Rename(path, filepath.Join(dir, "away.db")))
		require.NoError(t, tx.Rollback())

		require.Contains(t, take("2026-07-02 00:00:00.000000", "new", 20),
			"SQLite's log of an earlier gpu_state_2026-07.db, which was moved away, is set aside as "+
				"gpu_state_2026-07.db-wal.left-")
		db := readOnly(t, path)
		require.Equal(t, "ok", one[string](t, db, "PRAGMA integrity_check"))
		require.Equal(t, 20, one[int](t, db, "SELECT count(*) FROM gpu_state"))
		require.Equal(t, "new", one[string](t, db, "SELECT max(Machine) FROM gpu_state"))

		// with the log back at its side, the moved file has all of its rows
		aside, err := filepath.Glob(path + "-wal.left-*")
		require.NoError(t, err)
		require.Len(t, aside, 1)
		require.NoError(t, os.Rename(aside[0], filepath.Join(dir, "away.db-wal")))
		away, err := sql.Open("sqlite", filepath.Join(dir, "away.db"))
		require.NoError(t, err)
		require.Equal(t, rows+20, one[int](t, away, "SELECT count(*) FROM gpu_state"))
		require.NoError(t, away.Close())
	}
}

// The run log and queue files are created in the same way.
func TestLeftoversOfOtherFiles(t *testing.T) {
	o, _ := queues(t, map[string]string{"ap1": idle("ap1#1.0#1780000000")})
	const name = "job_pressure_2026-07.db"
	for _, of := range []string{name, runlog.Name} {
		require.NoError(t, os.WriteFile(filepath.Join(o.SnapshotDir, of+"-wal"), []byte("left"), 0o600))
	}
	polled, err := poll(t.Context(), o, 0, at("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	require.Contains(t, polled.Notes, name+"-wal.left-")
	require.Contains(t, one[string](t, readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name)), "SELECT notes FROM polls"),
		runlog.Name+"-wal.left-")
}

// A run was killed after it had noted its snapshot's time, and its month file cannot be read since: the log says so,
// and the runs after it collect.
func TestKilledRunWithADamagedMonth(t *testing.T) {
	o := fake(t, "machines:1")
	log, err := beginEntry(t.Context(), o.SnapshotDir, "runs", runColumns,
		time.Date(2026, 6, 30, 23, 45, 0, 0, time.UTC), o.endKilled)
	require.NoError(t, err)
	require.NoError(t, log.set(t.Context(), "timestamp = ?", "2026-06-30 23:45:01.000000"))
	require.NoError(t, log.db.Close())
	require.NoError(t, os.WriteFile(filepath.Join(o.SnapshotDir, "gpu_state_2026-06.db"), make([]byte, 8192), 0o600))
	now := clock("2026-07-15T12:00:00Z", "2026-08-15T12:00:00Z")
	for range 2 {
		_, err := run(t.Context(), o, now)
		require.NoError(t, err)
	}
	db := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, 1, one[int](t, db, `SELECT count(*) FROM runs WHERE timestamp IS NULL AND error LIKE
		'killed: the collector was ended, or the machine stopped; whether its snapshot of 2026-06-30 23:45:01.000000 was '
		|| 'written is not known: %not a database%'`))
	require.Equal(t, 2, one[int](t, db, "SELECT count(*) FROM runs WHERE rows > 0"))
}

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
