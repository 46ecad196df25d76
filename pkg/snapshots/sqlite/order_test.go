package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// lateRows are hourly rows with one that was appended late.
func lateRows() (rows []snapshotstest.Row) {
	rows = hourly(900)
	late := rows[100]
	return slices.Insert(slices.Delete(rows, 100, 101), 500, late)
}

// Rows that were appended late are found in a small file by the first look, in a large one in the background; until
// then, it is said that its order is not known. What is appended in order changes nothing about that.
func TestLateRowsAreFound(t *testing.T) {
	for name, late := range map[string]bool{"late": true, "in order": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rows := hourly(900)
			if late {
				rows = lateRows()
			}
			db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
			snapshotstest.Append(t, db, snapshotstest.Schema, rows[:890]...)
			small := opened(t, dir, month)
			c := small.mustLook(t)
			require.False(t, c.info.Unchecked)
			_, err := c.Seek(t.Context(), c.info.First, c.info.Last)
			require.Equal(t, late, errors.Is(err, snapshots.ErrStale), err)
			require.Equal(t, late, small.mustLook(t).info.Unordered)

			f := opened(t, dir, month)
			f.small = 0
			c = f.mustLook(t)
			require.False(t, c.info.Unordered)
			require.True(t, c.info.Unchecked)
			require.Same(t, c, f.mustLook(t))
			snapshotstest.Append(t, db, snapshotstest.Schema, rows[890:895]...)
			require.True(t, f.mustLook(t).info.Unchecked)
			f.inspect()
			for n := 895; n < 900; n++ {
				c = f.mustLook(t)
				require.Equal(t, late, c.info.Unordered)
				require.False(t, c.info.Unchecked)
				snapshotstest.Append(t, db, snapshotstest.Schema, rows[n])
			}
			_, err = db.Exec("DELETE FROM gpu_state WHERE rowid = (SELECT max(rowid) FROM gpu_state)")
			require.NoError(t, err)
			require.Equal(t, !late, f.mustLook(t).info.Unchecked, "an edited file is checked again")
		})
	}
}

// A process that answers once checks the order of a large file before it answers, also if an earlier process has seen
// the rows as they are.
func TestOrderBeforeTheOnlyAnswer(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: lateRows()})
	old := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(filepath.Join(dir, month), old, old))
	before := opened(t, dir, month)
	before.small = 0
	c := before.mustLook(t)
	from, err := localtime.UTC.ReadLocal([]byte("2025-09-05 00:00:00.000000"))
	require.NoError(t, err)
	found, err := c.Seek(t.Context(), from, from+1)
	require.NoError(t, err, "others answer, and say that they do not know the order")
	hash, err := c.Fingerprint(t.Context(), found)
	require.NoError(t, err)

	f := opened(t, dir, month)
	f.small = 0
	f.Recheck()
	now := f.mustLook(t)
	require.False(t, now.info.Unchecked, "it is known before the answer: nothing is to be said")
	_, err = now.Unchanged(t.Context(), c.Version(), found, hash)
	require.ErrorIs(t, err, snapshots.ErrStale)
	_, err = now.Seek(t.Context(), from, from+1)
	require.ErrorIs(t, err, snapshots.ErrStale)
	require.True(t, f.mustLook(t).info.Unordered)
}

// A file that is not looked at, or closed, is not checked.
func TestOrderOfClosedFiles(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{month: hourly(900)})
	f := opened(t, dir, month)
	f.small = 0
	f.inspect() // nothing was looked at yet
	c := f.mustLook(t)
	f.Close()
	f.inspect()
	require.True(t, c.info.Unchecked)
	require.Nil(t, f.inspection, "a closed file is left alone")
}

// What an earlier process has checked is not checked again, only what was appended since.
func TestOrderOfAnEarlierProcess(t *testing.T) {
	dir := t.TempDir()
	rows := hourly(900)
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, rows[:800]...)
	old := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(filepath.Join(dir, month), old, old))
	before := lookAt(t, dir, month)
	found, err := before.Seek(t.Context(), before.info.First, before.info.First+1)
	require.NoError(t, err)
	hash, err := before.Fingerprint(t.Context(), found)
	require.NoError(t, err)
	version := before.Version()
	require.Contains(t, version, `"Ordered":true`)

	f := opened(t, dir, month)
	require.True(t, unchanged(t, f.mustLook(t), version, found, hash))
	require.EqualValues(t, 800, f.orderedTo)
	require.Equal(t, f.edits, f.ordered)
	snapshotstest.Append(t, db, snapshotstest.Schema, append(rows[850:], rows[100])...) // the last is late
	f = opened(t, dir, month)
	_, err = f.mustLook(t).Unchanged(t.Context(), version, found, hash)
	require.ErrorIs(t, err, snapshots.ErrStale)
	require.EqualValues(t, 800, f.orderedTo)
	require.True(t, f.mustLook(t).info.Unordered)
	require.Contains(t, f.mustLook(t).Version(), `"Ordered":false`)
}
