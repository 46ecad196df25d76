package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

func appendTo(t testing.TB, path, journal string, rows []snapshotstest.Row) {
	t.Helper()
	dir, name := filepath.Split(path)
	db := snapshotstest.Open(t, dir, name, snapshotstest.Schema, "journal_mode="+journal)
	snapshotstest.Append(t, db, snapshotstest.Schema, rows...)
	require.NoError(t, db.Close())
}

func TestStore(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		t.Run(journal, func(t *testing.T) {
			snapshotstest.TestStore(t, snapshotstest.Store{
				Format: Format,
				Write: func(t testing.TB, path string, rows []snapshotstest.Row) {
					t.Helper()
					for _, suffix := range []string{"", "-wal", "-shm"} {
						_ = os.Remove(path + suffix)
					}
					appendTo(t, path, journal, rows)
				},
				Append: func(t testing.TB, path string, rows []snapshotstest.Row) {
					t.Helper()
					appendTo(t, path, journal, rows)
				},
				Lock: lockOf(journal),
			})
		})
	}
}

// lockOf locks as a writer does that commits for long. Readers of a file in WAL mode do not wait for writers.
func lockOf(journal string) func(t testing.TB, path string) func() {
	if journal == "WAL" {
		return nil
	}
	return func(t testing.TB, path string) func() {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		db.SetMaxOpenConns(1)
		_, err = db.Exec("BEGIN EXCLUSIVE")
		require.NoError(t, err)
		return func() {
			_, err := db.Exec("ROLLBACK")
			require.NoError(t, err)
			require.NoError(t, db.Close())
		}
	}
}
