package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
)

// A log tells the commits since an earlier look, until it begins anew.
func TestLogsTellCommits(t *testing.T) {
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode=WAL")
	db.SetMaxOpenConns(1)
	execute := func(statement string) {
		_, err := db.Exec(statement)
		require.NoError(t, err)
	}
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(1000)...)
	execute("PRAGMA wal_checkpoint(TRUNCATE)")
	execute("UPDATE gpu_state SET State = 'a' WHERE rowid = 7")
	f := opened(t, dir, month)
	first := f.mustLook(t)
	require.EqualValues(t, 1, first.log.commits)
	require.True(t, first.shows(t.Context()))

	execute("UPDATE gpu_state SET State = 'b' WHERE rowid = 7")
	execute("UPDATE gpu_state SET State = 'b' WHERE rowid = 700")
	second := f.mustLook(t)
	commits, known := second.commits(first)
	require.True(t, known)
	require.EqualValues(t, 2, commits)
	require.Equal(t, second.log, f.log(t.Context(), log{}), "from its beginning")
	require.False(t, first.shows(t.Context()), "its last commit was overwritten, as if it were not seen yet")

	execute("PRAGMA cache_size = 1")
	execute("BEGIN")
	execute("UPDATE gpu_state SET State = 'a longer one that needs a place of its own'") // more than the cache holds
	require.Equal(t, second.log, f.log(t.Context(), log{}), "what is not committed does not count")
	execute("ROLLBACK")
	execute("UPDATE gpu_state SET State = 'c' WHERE rowid = 7")
	third := f.mustLook(t)
	commits, known = third.commits(second)
	require.True(t, known)
	require.EqualValues(t, 1, commits)

	f.retire() // nobody reads
	execute("PRAGMA wal_checkpoint(RESTART)")
	execute("UPDATE gpu_state SET State = 'd' WHERE rowid = 7")
	_, known = f.mustLook(t).commits(third)
	require.False(t, known)
	require.NoError(t, db.Close())
}
