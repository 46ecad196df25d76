package reliability

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

const october = "gpu_state_2025-10.db"

// twoMonths writes the last days of September and the first of October.
func twoMonths(t *testing.T, pragmas ...string) (dir string, from, to time.Time) {
	t.Helper()
	dir = t.TempDir()
	from, to = time.Date(2025, 9, 29, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 3, 0, 0, 0, 0, time.UTC)
	files := map[string][]snapshotstest.Row{}
	for at, n := from, 0; at.Before(to); at, n = at.Add(15*time.Minute), n+1 {
		name := "gpu_state_" + at.Format("2006-01") + ".db"
		files[name] = append(files[name], shot(at, n)...)
	}
	for name, rows := range files {
		db := snapshotstest.Open(t, dir, name, snapshotstest.Schema, pragmas...)
		snapshotstest.Append(t, db, snapshotstest.Schema, rows...)
		require.NoError(t, db.Close())
	}
	return dir, from, to
}

// requireAsFresh compares a data source's answers with those of one that has seen nothing before and caches nothing.
func requireAsFresh(t *testing.T, d backend.QueryDataHandler, dir string, from, to time.Time, what string) {
	t.Helper()
	got, want := ask(t, d, from, to, views()...), ask(t, open(t, to, map[string]any{"snapshotDir": dir}), from, to,
		views()...)
	for i, q := range views() {
		require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%s: %s", what, q)
	}
}

// While a writer holds a month file locked, queries wait for it, but not for long: then the other months answer, with a
// notice. Many queries wait no longer than one. When the lock is gone, all is well.
func TestLockedFile(t *testing.T) {
	dir, from, to := twoMonths(t)
	d := open(t, to, map[string]any{"snapshotDir": dir})
	requireAsFresh(t, d, dir, from, to, "before")
	lock := func() (unlock func()) {
		db := snapshotstest.Open(t, dir, october, snapshotstest.Schema)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.Exec("DELETE FROM gpu_state WHERE rowid < 0")
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		_, err = db.Exec("BEGIN EXCLUSIVE")
		require.NoError(t, err)
		return func() {
			_, err := db.Exec("ROLLBACK")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}
	}

	unlock := lock()
	release := time.AfterFunc(time.Second, unlock)
	requireAsFresh(t, d, dir, from, to, "locked for a second")
	require.False(t, release.Stop(), "the answer came while the file was locked")

	unlock = lock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	started := time.Now()
	answer := askIn(t, ctx, d, from, to, views()[0])[0]
	cancel()
	require.ErrorIs(t, answer.Error, context.DeadlineExceeded)
	require.Less(t, time.Since(started), 2*time.Second, "the deadline ends the waiting")
	if !*long {
		unlock()
		return
	}
	const clients = 20
	var wait sync.WaitGroup
	started = time.Now()
	for i := range clients {
		wait.Go(func() {
			answer := ask(t, d, from.Add(time.Duration(i)*time.Minute), to, views()[0])[0]
			require.NoError(t, answer.Error)
			require.Contains(t, notices(answer), october+" is locked by a writer")
			require.False(t, empty(answer.Frames), "September answers")
		})
	}
	wait.Wait()
	took := time.Since(started)
	require.Less(t, took, 25*time.Second)
	time.Sleep(30*time.Second - time.Since(started)) // the collector that hangs
	unlock()
	requireAsFresh(t, d, dir, from, to, "after the lock")
	figure("A month file locked for 30 s", "%d simultaneous queries answered from the other months, with a notice, "+
		"after %.1f s; complete again with the first query after it", clients, took.Seconds())
}

// A collector writes as fast as it can while many ask: no query fails, and none sees half a snapshot.
func TestWriterAtWork(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			dir := t.TempDir()
			db := snapshotstest.Open(t, dir, september, snapshotstest.Schema, "journal_mode="+journal, "busy_timeout=20000")
			snapshotstest.Append(t, db, snapshotstest.Schema, quarters(1)...)
			const snapshots = 200
			to := begin.Add((snapshots - 1) * 15 * time.Minute)
			d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": t.TempDir()})
			written := make(chan struct{})
			go func() {
				defer close(written)
				for n := 1; n < snapshots; n++ {
					snapshotstest.Append(t, db, snapshotstest.Schema, shot(begin.Add(time.Duration(n)*15*time.Minute), n)...)
				}
			}()
			var wait sync.WaitGroup
			var asked [3]int
			for i := range asked {
				wait.Go(func() {
					for writing := true; writing; asked[i]++ {
						select {
						case <-written:
							writing = false
						default:
						}
						answer := ask(t, d, begin.Add(time.Duration(asked[i])*time.Microsecond), to,
							`{"queryType": "allocation", "view": "current"}`)[0]
						require.NoError(t, answer.Error)
						require.Equal(t, 3, answer.Frames[0].Rows(), "a snapshot has three GPUs")
					}
				})
			}
			wait.Wait()
			requireAsFresh(t, d, dir, begin, to, journal)
			figure("Written in "+journal+" mode while queried", "%d snapshots written, %d queries, no error, no half snapshot",
				snapshots, asked[0]+asked[1]+asked[2])
		})
	}
}

// What happens to a month file while it is in use becomes a notice, or does not matter; afterwards answers are right at
// once.
func TestFileChangesWhileInUse(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		for name, change := range map[string]func(t *testing.T, dir, file string) (notice string){
			"truncated": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Truncate(file, 10_000))
				return october
			},
			"truncated to nothing": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Truncate(file, 0))
				return october
			},
			"replaced by rename": func(t *testing.T, dir, file string) string {
				other := t.TempDir()
				snapshotstest.Write(t, other, map[string][]snapshotstest.Row{"x": shot(time.Date(2025, 10, 1, 0, 0, 0, 0,
					time.UTC), 9)})
				for _, suffix := range []string{"-wal", "-shm"} {
					_ = os.Remove(file + suffix)
				}
				require.NoError(t, os.Rename(filepath.Join(other, "x"), file))
				return ""
			},
			"deleted": func(t *testing.T, _, file string) string {
				for _, suffix := range []string{"", "-wal", "-shm"} {
					_ = os.Remove(file + suffix)
				}
				return ""
			},
			"replaced by a directory": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Remove(file))
				require.NoError(t, os.Mkdir(file, 0o700))
				return october
			},
			"replaced by a link that leads out": func(t *testing.T, _, file string) string {
				require.NoError(t, os.Remove(file))
				require.NoError(t, os.Symlink("/etc/hostname", file))
				return october
			},
		} {
			t.Run(journal+" "+name, func(t *testing.T) {
				dir, from, to := twoMonths(t, "journal_mode="+journal)
				whole := copyDir(t, dir)
				d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": t.TempDir()})
				requireAsFresh(t, d, dir, from, to, "before")
				file := filepath.Join(dir, october)
				notice := change(t, dir, file)
				for i, answer := range ask(t, d, from, to, views()...) {
					if answer.Error != nil { // the file was opened before, and its pages are gone
						require.ErrorContains(t, answer.Error, october, views()[i])
						require.NotContains(t, answer.Error.Error(), dir)
						continue
					}
					require.Contains(t, notices(answer), notice, views()[i])
					require.NotContains(t, notices(answer), dir)
				}
				if notice == "" {
					requireAsFresh(t, d, dir, from, to, name)
				}
				require.NoError(t, os.RemoveAll(file))
				require.NoError(t, os.Rename(filepath.Join(whole, october), file))
				requireAsFresh(t, d, dir, from, to, "restored")
			})
		}
	}
}
