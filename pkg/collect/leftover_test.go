package collect

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/runlog"
)

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
			"SQLite's log of an earlier gpu_state_2026-07.db, which was moved away, is set aside as gpu_state_2026-07.db-wal.left-")
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
	log, err := beginRun(t.Context(), o, time.Date(2026, 6, 30, 23, 45, 0, 0, time.UTC))
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
