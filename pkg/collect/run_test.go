package collect

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
)

// readOnly opens a file as a reader does.
func readOnly(t testing.TB, path string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// run takes a snapshot by a clock.
func run(ctx context.Context, o Options, now func() time.Time) (Result, error) {
	o.now = now
	return Run(ctx, o)
}

// poll polls the queues by a clock. Jobs may be away so long.
func poll(ctx context.Context, o Options, away time.Duration, now func() time.Time) (Polled, error) {
	o.away, o.now = away, now
	return Poll(ctx, o)
}

func one[T any](t testing.TB, db *sql.DB, query string) (value T) {
	require.NoError(t, db.QueryRow(query).Scan(&value), query)
	return value
}

// clock shows fixed times one after another, each twice as a run asks: at its beginning, when the answer is there, at
// its end.
func clock(times ...string) func() time.Time {
	calls := 0
	return func() time.Time {
		at, err := time.Parse(time.RFC3339Nano, times[min(calls/3, len(times)-1)])
		if err != nil {
			panic(err)
		}
		at = at.Add(time.Duration(calls%3) * time.Second)
		calls++
		return at
	}
}

func TestRunWritesASnapshot(t *testing.T) {
	o := fake(t, "machines:5")
	now := clock("2026-06-30T23:59:58.123456Z", "2026-07-01T00:15:00Z", "2026-07-01T00:30:00Z")
	for i, want := range []string{"2026-06-30 23:59:59.123456", "2026-07-01 00:15:01.000000",
		"2026-07-01 00:30:01.000000"} {
		got, err := run(t.Context(), o, now)
		require.NoError(t, err, i)
		require.Equal(t, Result{Timestamp: want, Slots: 5 * adsPerMachine, Rows: 5 * rowsPerMachine,
			Duration: 2 * time.Second}, got)
	}
	july := readOnly(t, filepath.Join(o.SnapshotDir, "gpu_state_2026-07.db"))
	require.Equal(t, 2*5*rowsPerMachine, one[int](t, july, "SELECT count(*) FROM gpu_state"))
	require.Equal(t, 2, one[int](t, july, "SELECT count(DISTINCT timestamp) FROM gpu_state"))
	require.Equal(t, 0, one[int](t, july, "SELECT count(*) FROM gpu_state a JOIN gpu_state b ON a.rowid < b.rowid AND "+
		"a.timestamp > b.timestamp"), "order of time")
	require.Equal(t, "wal", one[string](t, july, "PRAGMA journal_mode"))
	require.Equal(t, "gpu_state_timestamp", one[string](t, july, "SELECT name FROM pragma_index_list('gpu_state')"))
	require.Equal(t, "Name TEXT,AssignedGPUs TEXT,AvailableGPUs TEXT,State TEXT,GPUs_DeviceName "+
		"TEXT,GPUs_GlobalMemoryMb BIGINT,PrioritizedProjects TEXT,GPUsAverageUsage FLOAT,"+
		"Machine TEXT,PreventJobsReason TEXT,RemoteOwner TEXT,GlobalJobId TEXT,timestamp DATETIME,Disk INTEGER,"+
		"Cpus INTEGER,Memory INTEGER,SlotType TEXT,SlotBrokenReason TEXT,BackfillSlot INTEGER",
		one[string](t, july, "SELECT group_concat(name || ' ' || type) FROM (SELECT * FROM pragma_table_info('gpu_state') "+
			"ORDER BY cid)"))
	require.Equal(t, "text", one[string](t, july, "SELECT DISTINCT typeof(CAST(timestamp AS TEXT)) FROM gpu_state"))
	june := readOnly(t, filepath.Join(o.SnapshotDir, "gpu_state_2026-06.db"))
	require.Equal(t, 5*rowsPerMachine, one[int](t, june, "SELECT count(*) FROM gpu_state"))

	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, "2026-06-30 23:59:58.123456|2.0|2026-06-30 23:59:59.123456|40|-|-",
		one[string](t, log, "SELECT concat_ws('|', started, seconds, timestamp, rows, ifnull(notes, '-'), ifnull(error, "+
			"'-')) FROM runs ORDER BY started"))
	require.Equal(t, 3, one[int](t, log, "SELECT count(*) FROM runs"))
	wal, err := os.Stat(filepath.Join(o.SnapshotDir, "gpu_state_2026-07.db-wal"))
	require.NoError(t, err, "whoever may only read the directory needs it")
	require.Zero(t, wal.Size(), "the main file is complete")
}

func TestRunInANamedZone(t *testing.T) {
	o := fake(t, "machines:1")
	o.Timezone = "America/Chicago"
	got, err := run(t.Context(), o, clock("2026-11-01T04:59:58Z"))
	require.NoError(t, err)
	require.Equal(t, "2026-10-31 23:59:59.000000", got.Timestamp)
	require.FileExists(t, filepath.Join(o.SnapshotDir, "gpu_state_2026-10.db"))
	for _, at := range []string{"2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z"} { // the hour that occurs twice
		got, err = run(t.Context(), o, clock(at))
		require.NoError(t, err)
		require.Equal(t, "2026-11-01 01:30:01.000000", got.Timestamp)
	}
}

func TestRunRefusesAClockThatWentBack(t *testing.T) {
	o := fake(t, "machines:1")
	now := clock("2026-07-01T12:00:00Z", "2026-07-01T11:00:00Z", "2026-07-01T12:15:00Z")
	_, err := run(t.Context(), o, now)
	require.NoError(t, err)
	_, err = run(t.Context(), o, now)
	require.ErrorContains(t, err, "this machine's clock shows 2026-07-01 11:00:01.000000 UTC, but the last run "+
		"that took a snapshot ended at 2026-07-01 12:00:02.000000")
	_, err = run(t.Context(), o, now)
	require.NoError(t, err)
}

// A file of an older collector: no WAL, no index, no newer columns, one more of its own.
func TestRunGoesOnWithAnOlderFile(t *testing.T) {
	o := fake(t, "machines:2")
	path := filepath.Join(o.SnapshotDir, "gpu_state_2026-07.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(`CREATE TABLE gpu_state ("Name" TEXT, "AssignedGPUs" TEXT, "AvailableGPUs" TEXT, "State" TEXT, "GPUs_DeviceName" TEXT, "GPUs_GlobalMemoryMb" BIGINT,
		"PrioritizedProjects" TEXT, "GPUsAverageUsage" FLOAT, "machine" TEXT, "RemoteOwner" TEXT,
		"GlobalJobId" TEXT, "Extra" TEXT, timestamp DATETIME);
		INSERT INTO gpu_state (Name, timestamp) VALUES ('slot1@a', '2026-07-01 11:00:00.000000')`)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = run(t.Context(), o, clock("2026-07-01T12:00:00Z"))
	require.NoError(t, err)
	after := readOnly(t, path)
	require.Equal(t, 1+2*rowsPerMachine, one[int](t, after, "SELECT count(*) FROM gpu_state"))
	require.Equal(t, 2*rowsPerMachine, one[int](t, after, "SELECT count(*) FROM gpu_state WHERE Disk = 1929379840 AND "+
		"Machine LIKE 'gpu%' AND Extra IS NULL"))
	require.Equal(t, 20, one[int](t, after, "SELECT count(*) FROM pragma_table_info('gpu_state')"))
}

func TestRunWithoutASnapshot(t *testing.T) {
	for behaviour, reason := range map[string]string{
		"none":         "knows no slot with a GPU",
		"fail":         "failed (exit status 1): Error: communication error\nCEDAR:6001",
		"failAfterAll": "failed (exit status 1): Error: lost the collector",
		"half":         "it ends in the middle",
		"types":        `Name of slot "" is not a text`,
		"wordy":        "bytes more)",
		"endless":      "prints more than 8 MiB",
	} {
		t.Run(behaviour, func(t *testing.T) {
			o := fake(t, behaviour)
			o.maxOutput = 8 << 20
			_, err := Run(t.Context(), o)
			require.ErrorContains(t, err, reason)
			require.Equal(t, pool.FaultSource, pool.FaultOf(err))
			require.Less(t, len(err.Error()), 5000)
			months, err := filepath.Glob(filepath.Join(o.SnapshotDir, "gpu_state_*"))
			require.NoError(t, err)
			require.Empty(t, months)
			log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
			require.Contains(t, one[string](t, log, "SELECT error FROM runs WHERE rows IS NULL AND timestamp IS NULL AND "+
				"seconds > 0"), reason)
		})
	}
}

func TestRunEndsAHangingCondorStatusWithItsChildren(t *testing.T) {
	for name, reason := range map[string]string{"timeout": "did not end within 3s: deaf",
		"cancelled": "context canceled"} {
		t.Run(name, func(t *testing.T) {
			o := fake(t, "hang")
			group := filepath.Join(o.SnapshotDir, "group")
			t.Setenv("FAKE_GROUP", group)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "timeout" {
				o.Timeout = 3 * time.Second
			} else {
				go cancelWhenThere(ctx, cancel, group)
			}
			_, err := Run(ctx, o)
			require.ErrorContains(t, err, reason)
			text, unread := os.ReadFile(group)
			require.NoError(t, unread)
			id, unread := strconv.Atoi(string(text))
			require.NoError(t, unread)
			require.Eventually(t, func() bool { return syscall.Kill(-id, 0) == syscall.ESRCH }, time.Minute, 10*time.Millisecond)
			log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
			require.Contains(t, one[string](t, log, "SELECT error FROM runs WHERE seconds > 0"), reason)
		})
	}
}

// cancelWhenThere cancels when the file has appeared.
func cancelWhenThere(ctx context.Context, cancel context.CancelFunc, path string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			cancel()
			return
		}
		<-tick.C
	}
}

func TestRunNotesWhatItCannotStore(t *testing.T) {
	o := fake(t, "latin1")
	got, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, "1 slots hold bytes that are not UTF-8: stored as U+FFFD (first: slot1@m)", got.Notes)
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, got.Notes, one[string](t, log, "SELECT notes FROM runs"))
}

func TestRunOneAtATime(t *testing.T) {
	o := fake(t, "machines:1")
	held, err := lock(o.SnapshotDir, lockName)
	require.NoError(t, err)
	_, err = Run(t.Context(), o)
	require.ErrorContains(t, err, "another collection is under way in ")
	require.NoError(t, held.Close())
	_, err = Run(t.Context(), o)
	require.NoError(t, err)
}

func TestRunTakesOverFromAKilledOne(t *testing.T) {
	o := fake(t, "machines:1")
	kill := func(timestamp string) {
		killed, err := beginEntry(t.Context(), o.SnapshotDir, "runs", runColumns, time.Now(), o.endKilled)
		require.NoError(t, err)
		if timestamp != "" {
			require.NoError(t, killed.set(t.Context(), "timestamp = ?", timestamp))
		}
		require.NoError(t, killed.db.Close())
	}
	kill("")
	kill("2030-01-01 00:00:00.000000") // before its month file was there
	first, err := Run(t.Context(), o)
	require.NoError(t, err)
	kill("1" + first.Timestamp[1:])
	kill(first.Timestamp) // as if it had written this one
	leftover := filepath.Join(o.SnapshotDir, ".gpu_state_2100-01.db.0123456789abcdef.tmp")
	for _, path := range []string{leftover, leftover + "-journal"} {
		require.NoError(t, os.WriteFile(path, []byte("half"), 0o600))
		require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().AddDate(0, 0, -2)))
	}
	_, err = run(t.Context(), o, clock("2100-01-01T00:00:00Z"))
	require.NoError(t, err)
	require.NoFileExists(t, leftover)
	require.NoFileExists(t, leftover+"-journal")
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, 3, one[int](t, log, "SELECT count(*) FROM runs WHERE error LIKE 'killed%' AND timestamp IS NULL "+
		"AND rows IS NULL"))
	require.Equal(t, first.Timestamp+" 8", one[string](t, log,
		"SELECT timestamp || ' ' || rows FROM runs WHERE notes LIKE 'killed%' AND error IS NULL"))
	require.Equal(t, 6, one[int](t, log, "SELECT count(*) FROM runs"))
}

func TestWrongOptions(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for reason, o := range map[string]Options{
		"create it, writable":                {SnapshotDir: filepath.Join(dir, "missing")},
		"not a directory":                    {SnapshotDir: file},
		`time zone "Mars/Phobos" is unknown`: {SnapshotDir: dir, Timezone: "Mars/Phobos"},
		"a timeout of -1s is impossible":     {SnapshotDir: dir, Timeout: -time.Second},
		"install HTCondor's tools":           {SnapshotDir: dir, CondorStatus: "no-such-condor_status"},
		"no such file or directory":          {SnapshotDir: dir, CondorStatus: filepath.Join(dir, "missing")},
	} {
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, reason)
		require.NotZero(t, pool.FaultOf(err))
	}
	o := Options{SnapshotDir: dir, Log: slog.New(slog.DiscardHandler)}
	require.ErrorContains(t, Service(t.Context(), o, time.Minute), "an interval of 1m0s is too short: at least 2m0s")
	require.ErrorContains(t, Service(t.Context(), o, 2*time.Minute),
		"the timeout (2m0s) must be shorter than the interval (2m0s)")
}

// What fails once a snapshot is committed, here by a signal that comes at that moment, does not undo it.
func TestSignalAfterTheCommit(t *testing.T) {
	o := fake(t, "machines:2")
	ctx, signal := context.WithCancel(t.Context())
	second, inserted := false, false
	sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, dsn string) error {
		if !second || !strings.Contains(dsn, filepath.Join(o.SnapshotDir, "gpu_state_2026-07.db?")) {
			return nil
		}
		hooks := conn.(sqlite.HookRegisterer)
		hooks.RegisterPreUpdateHook(func(sqlite.SQLitePreUpdateData) { inserted = true })
		hooks.RegisterCommitHook(func() int32 {
			if inserted {
				signal()
			}
			return 0
		})
		return nil
	})
	defer signal()
	_, err := run(t.Context(), o, clock("2026-07-01T00:15:00Z")) // makes the file and its table
	require.NoError(t, err)
	second = true
	got, err := run(ctx, o, clock("2026-07-01T00:30:00Z"))
	require.NoError(t, err)
	require.Error(t, ctx.Err())
	require.Equal(t, 2*rowsPerMachine, got.Rows)
	log := readOnly(t, filepath.Join(o.SnapshotDir, runlog.Name))
	require.Equal(t, 2, one[int](t, log, "SELECT count(*) FROM runs WHERE rows > 0 AND error IS NULL"))
}

// Where the run log cannot be written at the end (a full disk, a lock), there is a snapshot anyway.
func TestSnapshotWithoutRunLog(t *testing.T) {
	o := fake(t, "machines:5")
	calls := 0
	var locked *sql.DB
	now := func() time.Time {
		if calls++; calls == 3 { // the snapshot is written
			var err error
			locked, err = sql.Open("sqlite", filepath.Join(o.SnapshotDir, "collector_runs.db"))
			require.NoError(t, err)
			locked.SetMaxOpenConns(1)
			_, err = locked.Exec("BEGIN IMMEDIATE")
			require.NoError(t, err)
		}
		return time.Date(2026, 6, 10, 12, 0, calls, 0, time.UTC)
	}
	result, err := run(t.Context(), o, now)
	require.NoError(t, locked.Close())
	require.NotEmpty(t, result.Timestamp)
	db := readOnly(t, filepath.Join(o.SnapshotDir, "gpu_state_2026-06.db"))
	require.Positive(t, one[int](t, db, "SELECT count(*) FROM gpu_state"))
	require.NoError(t, err)
	require.Contains(t, result.Notes, "writing to the run log")
}

func TestServiceRunsAtMultiplesOfTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(7*time.Minute + 3*time.Second) // a bubble's clock begins at midnight
		var began []string
		took := []time.Duration{time.Second, 0, 14 * time.Minute, 16 * time.Minute, 31 * time.Minute, 0, 15 * time.Minute, 0}
		atMultiples(ctx, 15*time.Minute, func() {
			began = append(began, time.Now().UTC().Format(time.TimeOnly))
			if time.Sleep(took[len(began)-1]); len(began) == len(took) {
				cancel()
			}
		})
		require.Equal(t, []string{"00:15:00", "00:30:00", "00:45:00", "01:00:00", "01:30:00", "02:15:00", "02:30:00",
			"03:00:00"}, began)
	})
}

func TestServiceLogsFailuresAndEndsWithItsContext(t *testing.T) {
	o := fake(t, "machines:1")
	var log bytes.Buffer
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, Service(ctx, o, MinEvery))
	require.Contains(t, log.String(), "every=2m0s timezone=UTC")

	o, err := o.prepare()
	require.NoError(t, err)
	o.once(t.Context())
	require.Regexp(t, `level=INFO msg=snapshot timestamp="[^"]+" slots=4 rows=8 `, log.String())
	t.Setenv("FAKE_CONDOR_STATUS", "latin1")
	o.once(t.Context())
	require.Regexp(t, `level=WARN msg=snapshot .* notes="1 slots hold bytes`, log.String())
	t.Setenv("FAKE_CONDOR_STATUS", "fail")
	o.once(t.Context())
	require.Regexp(t, `level=ERROR msg="no snapshot" error=".*communication error`, log.String())
}

// collectOnce runs a collector of its own into a new directory. The fake condor_status is not counted.
func collectOnce(t testing.TB, machines int) (wall, cpu time.Duration, peak int64) {
	command := exec.Command(itself())
	command.Env = append(os.Environ(), "COLLECT_INTO="+t.TempDir(), "COLLECT_TIMES=1",
		"FAKE_CONDOR_STATUS=machines:"+strconv.Itoa(machines))
	began := time.Now()
	output, err := command.CombinedOutput()
	require.NoError(t, err, string(output))
	usage := command.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Since(began), time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), usage.Maxrss << 10 // KiB on Linux
}

// A pool of 10,000 GPUs fits into 3 s and 300 MB (budget of the collector). Processor time, so that a busy machine does
// not fail it.
func TestTenThousandGPUs(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector needs several times as much")
	}
	_, cpu, peak := collectOnce(t, 10_000/gpusPerMachine)
	require.Less(t, cpu, 3*time.Second)
	require.Less(t, peak, int64(300e6))
}
