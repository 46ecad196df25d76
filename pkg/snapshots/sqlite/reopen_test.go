package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
)

// A file that is opened anew while others look at it and read it: each reading is whole or says that it is stale.
// (It is meant for the race detector.)
func TestReopenedWhileRead(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(300)})
	f := opened(t, dir, month)
	path := filepath.Join(dir, month)
	old := time.Now().Add(-100 * time.Hour)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for range 50 {
				if i == 0 { // as immutable, and not, in turns
					old = old.Add(-time.Hour)
					if err := os.Chtimes(path, old, old); err != nil {
						t.Error(err)
					}
				}
				c, err := f.Look(t.Context(), i == 1)
				if err != nil {
					t.Error(err)
					return
				}
				info := c.Info()
				read := &counter{}
				_, errSeek := c.Seek(t.Context(), info.First, info.Last)
				_, errPrint := c.Fingerprint(t.Context(), info.Rows)
				err = c.Scan(t.Context(), info.Rows, false, read)
				for _, err := range []error{err, errSeek, errPrint} {
					if err != nil && !errors.Is(err, snapshots.ErrStale) {
						t.Error(err)
					}
				}
				if err == nil && read.rows != 300 {
					t.Errorf("%d rows", read.rows)
				}
			}
		})
	}
	wait.Wait()
}

// Connections that nobody uses are closed after a while; the next look sees what happened meanwhile, and nothing where
// nothing did.
func TestIdleConnectionsAreClosed(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		dir := t.TempDir()
		db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode="+journal)
		snapshotstest.Append(t, db, snapshotstest.Schema, hourly(10)...)
		for _, suffix := range []string{"", "-wal"} { // as if written a while ago
			_ = os.Chtimes(filepath.Join(dir, month+suffix), time.Now().Add(-time.Minute), time.Now().Add(-time.Minute))
		}
		f := opened(t, dir, month)
		before := f.mustLook(t)
		idleNow := func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.handle.unwatch()
		}
		idleNow()
		require.Same(t, before, f.mustLook(t), "%s: nothing was written", journal)
		idleNow()
		snapshotstest.Append(t, db, snapshotstest.Schema, rowAt("2025-09-01 10:00:00"))
		grown := f.mustLook(t)
		require.EqualValues(t, 11, grown.info.Rows.Last)
		require.Equal(t, before.info.Edits, grown.info.Edits)
		idleNow()
		_, err := db.Exec("UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 4")
		require.NoError(t, err)
		require.NotEqual(t, grown.info.Edits, f.mustLook(t).info.Edits)
		require.NoError(t, db.Close())
	}
}
