package sqlitefile

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// create writes a file with one table, and returns it with a connection to write to it.
func create(t *testing.T, name string) (File, *sql.DB) {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", URI(filepath.Join(dir, name), Pragma("busy_timeout", 0)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "CREATE TABLE numbers (n INTEGER); INSERT INTO numbers VALUES (7)")
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return File{Root: root, Dir: dir, Name: name, Writer: "the collector"}, db
}

func TestNamesWithSignsOfURIs(t *testing.T) {
	f, _ := create(t, "a b?c#d%20.db")
	_, err := f.Stat()
	require.NoError(t, err)
	db, err := f.Open(2, false)
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT n FROM numbers").Scan(&n))
	require.Equal(t, 7, n)
	_, err = db.ExecContext(t.Context(), "DELETE FROM numbers")
	require.ErrorContains(t, err, "readonly")
}

// A look soon after one that waited in vain waits for less.
func TestPatience(t *testing.T) {
	f, writer := create(t, "numbers.db")
	_, err := writer.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)
	impatient, err := sql.Open("sqlite", URI(filepath.Join(f.Dir, f.Name), Pragma("busy_timeout", 0)))
	require.NoError(t, err)
	defer impatient.Close()
	look := func(ctx context.Context) error {
		_, err := impatient.ExecContext(ctx, "SELECT count(*) FROM numbers")
		return err
	}
	asked := time.Now()
	var p Watched
	require.False(t, p.waitedAt.After(asked))
	limit := func(ctx context.Context) bool { _, limited := ctx.Deadline(); return limited }
	require.ErrorContains(t, f.Explain(p.bounded(t.Context(), func(ctx context.Context) error {
		require.False(t, limit(ctx))
		return look(ctx)
	})), "numbers.db is locked by a writer for more than 10s: the collector should write in WAL mode")
	require.True(t, p.waitedAt.After(asked))
	require.ErrorContains(t, f.Explain(p.bounded(t.Context(), func(ctx context.Context) error {
		require.True(t, limit(ctx))
		<-ctx.Done()
		return ctx.Err()
	})), "is locked by a writer")
	_, err = writer.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, p.bounded(t.Context(), look))
	require.False(t, p.waitedAt.After(time.Now()))
}

func TestExplain(t *testing.T) {
	f, _ := create(t, "numbers.db")
	require.ErrorContains(t, f.Explain(fs.ErrNotExist), "numbers.db was removed while it was read")
	require.ErrorContains(t, f.Explain(&fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrPermission}),
		"give the user that runs Grafana read access")
	require.ErrorContains(t, f.Explain(ErrCircle), "damaged or truncated (rows do not follow each other)")
	require.NotContains(t, f.Explain(&fs.PathError{Op: "open", Path: "/secret", Err: fs.ErrInvalid}).Error(), "secret")
	require.True(t, IsDamage(ErrCircle))
	require.NoError(t, os.Mkdir(filepath.Join(f.Dir, "directory"), 0o700))
	_, err := File{Root: f.Root, Dir: f.Dir, Name: "directory"}.Stat()
	require.ErrorContains(t, err, "not a regular file")
}

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
