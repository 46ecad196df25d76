package sqlitefile

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// look takes one look at a file and returns the result.
func look(t *testing.T, w *Watched, settled bool) (found Found) {
	t.Helper()
	require.NoError(t, w.Look(t.Context(), settled, func(_ context.Context, l Found) error {
		found = l
		return nil
	}))
	return found
}

// age makes a file and its log look as if they were written a while ago.
func age(t *testing.T, f File, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	require.NoError(t, os.Chtimes(filepath.Join(f.Dir, f.Name), then, then))
	_ = os.Chtimes(filepath.Join(f.Dir, f.Name+"-wal"), then, then)
}

// Each commit is seen, and nothing where nothing happened.
func TestCommitsAreSeen(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		f, db := create(t, "numbers.db")
		insert := func() {
			_, err := db.ExecContext(t.Context(), "INSERT INTO numbers VALUES (8)")
			require.NoError(t, err)
		}
		_, err := db.ExecContext(t.Context(), "PRAGMA journal_mode="+journal)
		require.NoError(t, err)
		insert()
		age(t, f, time.Minute)
		w := f.Watch(1)
		require.True(t, look(t, w, false).Changed)
		require.False(t, look(t, w, false).Changed)
		insert()
		require.True(t, look(t, w, false).Changed)
		require.False(t, look(t, w, false).Changed)
		insert()
		require.ErrorIs(t, w.Look(t.Context(), false, func(context.Context, Found) error { return fs.ErrInvalid }),
			fs.ErrInvalid)
		require.True(t, look(t, w, false).Changed, "the last look failed")
		age(t, f, 20*time.Second)
		require.True(t, look(t, w, false).Changed, "another time, as of a file that was copied over it")
		w.Close()
	}
}

// A settled file that is old is opened as immutable, until it changes or may be written to again.
func TestSettledFiles(t *testing.T) {
	f, db := create(t, "numbers.db")
	w := f.Watch(1)
	defer w.Close()
	require.False(t, look(t, w, true).immutable, "it is new")
	age(t, f, 2*Settled)
	settled := look(t, w, true)
	require.False(t, settled.immutable, "what is open stays so while it is right")
	w.Close()
	settled = look(t, w, true)
	require.True(t, settled.immutable)
	require.Same(t, settled.Handle, look(t, w, true).Handle)
	_, err := db.ExecContext(t.Context(), "INSERT INTO numbers VALUES (8)")
	require.NoError(t, err)
	written := look(t, w, true)
	require.True(t, written.Changed)
	require.False(t, written.immutable)
	require.True(t, settled.Retired())
}

// Another file under the name is another handle; one that is gone is an error.
func TestReplacedFile(t *testing.T) {
	f, _ := create(t, "numbers.db")
	other, _ := create(t, "numbers.db")
	w := f.Watch(1)
	defer w.Close()
	before := look(t, w, false)
	require.NoError(t, os.Rename(filepath.Join(other.Dir, f.Name), filepath.Join(f.Dir, f.Name)))
	after := look(t, w, false)
	require.True(t, after.Changed)
	require.False(t, os.SameFile(before.Info, after.Info))
	require.True(t, before.Retired())
	require.NoError(t, os.Remove(filepath.Join(f.Dir, f.Name)))
	require.ErrorIs(t, w.Look(t.Context(), false, func(context.Context, Found) error { return nil }), fs.ErrNotExist)
	require.True(t, after.Retired())
}
