package collect

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/runlog"
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

// killedAfter starts a collector of its own and kills it after a while.
func killedAfter(t *testing.T, while time.Duration) {
	t.Helper()
	command := exec.Command(itself())
	var said bytes.Buffer
	command.Stderr = &said
	require.NoError(t, command.Start())
	killer := time.AfterFunc(while, func() { _ = command.Process.Signal(syscall.SIGKILL) })
	err := command.Wait()
	killer.Stop()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL,
		"it ended by itself: %v: %s", err, said.String())
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
