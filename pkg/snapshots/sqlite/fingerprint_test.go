package sqlite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// A fingerprint that is requested after a scan is that of the rows that the scan gave, regardless of earlier
// fingerprints and later commits, because data derived from the rows are cached under it.
func TestFingerprintOfWhatWasScanned(t *testing.T) {
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(500)...)
	r := months.Range{First: 100, Last: 400}
	print := func(c *content) string {
		text, err := c.Fingerprint(t.Context(), r)
		require.NoError(t, err)
		return text
	}
	edit := func() {
		_, err := db.Exec("UPDATE gpu_state SET State = State || 'x' WHERE rowid = 222")
		require.NoError(t, err)
	}
	scanned, known := lookAt(t, dir, month), lookAt(t, dir, month)
	before := print(lookAt(t, dir, month))
	require.NoError(t, scanned.Scan(t.Context(), r, &tape{}))
	require.Equal(t, before, print(known))
	edit()
	require.Equal(t, before, print(scanned))
	require.NoError(t, known.Scan(t.Context(), r, &tape{}))
	after := print(lookAt(t, dir, month))
	require.NotEqual(t, before, after)
	edit()
	require.Equal(t, after, print(known))
	require.NoError(t, db.Close())
}

// What separates texts where SQL gives them, and lies in one of them, does not hide an edit.
func TestFingerprintsOfSeparators(t *testing.T) {
	seen := map[string]bool{}
	for _, texts := range [][2]string{{"a\x1fb", "c"}, {"a", "b\x1fc"}, {"a\x1f", "b\x1fc"}, {"", "a\x1fb\x1fc"}} {
		dir := t.TempDir()
		db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
		snapshotstest.Append(t, db, snapshotstest.Schema, snapshotstest.Row{"Name": texts[0], "AssignedGPUs": texts[1],
			"State": "Unclaimed", "Machine": "m", "timestamp": "2025-10-01 12:00:00"})
		require.NoError(t, db.Close())
		print, err := lookAt(t, dir, month).Fingerprint(t.Context(), months.Range{First: 1, Last: 1})
		require.NoError(t, err)
		require.False(t, seen[print], "%q", texts)
		seen[print] = true
	}
}

// More readers than connections, whose rows all hold a separator, do not wait for each other.
func TestReadersOfSeparators(t *testing.T) {
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode=WAL")
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(700)...)
	_, err := db.Exec("UPDATE gpu_state SET RemoteOwner = 'a'||char(31)||'b'")
	require.NoError(t, err)
	c := lookAt(t, dir, month)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	group, inner := errgroup.WithContext(ctx)
	for i := range int64(4 * readers) {
		group.Go(func() error {
			_, err := c.Fingerprint(inner, months.Range{First: 1 + i, Last: 100 + i})
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// A row has the same texts, and the same whole, whether it is read as one text or column by column, as it is after a
// row with a separator.
func TestRowsByColumns(t *testing.T) {
	db := snapshotstest.Open(t, t.TempDir(), month, snapshotstest.Schema)
	_, err := db.Exec(`CREATE TABLE t (a, b); INSERT INTO t VALUES ('x'||char(31), 1), (NULL, 0.1), (1e300, -3), ('', 'ü'),
		(x'0041ff', 'a'||char(0)||'b'), (9007199254740993, 2.0), ('y', char(31))`)
	require.NoError(t, err)
	table, err := sqlitefile.FindTable(t.Context(), db, "t")
	require.NoError(t, err)
	read := func(first int64) (rows []string) {
		err := table.Read(t.Context(), db, []string{"a", "none", "b"}, first, 9, func(r *sqlitefile.Row) error {
			rows = append(rows, fmt.Sprintf("%q %q", r.Texts, r.Values))
			return nil
		})
		require.NoError(t, err)
		return rows
	}
	whole := read(1)
	require.Len(t, whole, 7)
	for first := range 7 {
		require.Equal(t, whole[first:], read(int64(first+1)))
	}
}

// An edit that is committed together with appended rows is found when the rows are hashed again, and at the very next
// look after Recheck. Merely appending rows is not an edit.
func TestEditsBesideAppendedRows(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		for name, find := range map[string]func(*file){"in the background": (*file).inspect, "rechecked": (*file).Recheck} {
			dir := t.TempDir()
			db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode="+journal)
			db.SetMaxOpenConns(1)
			execute := func(sql string) {
				_, err := db.Exec(sql)
				require.NoError(t, err)
			}
			snapshotstest.Append(t, db, snapshotstest.Schema, hourly(1000)...)
			f := opened(t, dir, month)
			before := f.mustLook(t)
			day := months.Range{First: 700, Last: 800}
			print, err := before.Fingerprint(t.Context(), day)
			require.NoError(t, err)
			require.True(t, before.Verified())

			execute("INSERT INTO gpu_state SELECT * FROM gpu_state WHERE rowid = 1000")
			grown := f.mustLook(t)
			require.NotSame(t, before, grown)
			require.Equal(t, before.info.Edits, grown.info.Edits)
			require.False(t, grown.Verified())
			f.inspect()
			require.Same(t, grown, f.mustLook(t), "nothing was hidden")
			require.True(t, grown.Verified())

			execute("BEGIN")
			execute("UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 777")
			execute("INSERT INTO gpu_state SELECT * FROM gpu_state WHERE rowid = 1000")
			execute("COMMIT")
			hidden := f.mustLook(t)
			require.EqualValues(t, 1002, hidden.info.Rows.Last)
			require.Equal(t, before.info.Edits, hidden.info.Edits)
			find(f)
			after := f.mustLook(t)
			require.NotEqual(t, before.info.Edits, after.info.Edits, "%s, %s", journal, name)
			now, err := after.Fingerprint(t.Context(), day)
			require.NoError(t, err)
			require.NotEqual(t, print, now)
			require.NoError(t, db.Close())
		}
	}
}

// What another process kept of a file that only grew since is trusted, but hashed in the background; a file that is to
// be rechecked trusts only what nothing touched.
func TestRowsOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(100)...)
	age(t, dir)
	r := months.Range{First: 10, Last: 50}
	other := lookAt(t, dir, month)
	print, err := other.Fingerprint(t.Context(), r)
	require.NoError(t, err)
	version := other.Version()
	look := func() (*file, *content) {
		f := opened(t, dir, month)
		return f, f.mustLook(t)
	}
	f, c := look()
	f.Recheck()
	require.True(t, unchanged(t, c, version, r, print), "nothing touched the file")

	_, err = db.Exec("UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 33")
	require.NoError(t, err)
	_, c = look()
	require.False(t, unchanged(t, c, version, r, print), "a commit without more rows")

	snapshotstest.Append(t, db, snapshotstest.Schema, rowAt("2025-09-10 10:00:00"))
	f, c = look()
	require.True(t, unchanged(t, c, version, r, print), "the edit hides behind the row")
	require.False(t, c.Verified())
	f.inspect()
	require.NotEqual(t, c.info.Edits, f.mustLook(t).info.Edits)
	require.False(t, unchanged(t, f.mustLook(t), version, r, print), "a file with edits is not trusted any more")
	f, c = look()
	f.Recheck()
	require.False(t, unchanged(t, c, version, r, print))
	require.NoError(t, db.Close())
}

// A collector can commit while its month is hashed: no statement reads more than some thousand rows.
func TestCommitsBesideTheHash(t *testing.T) {
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "busy_timeout=60000")
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(20)...)
	_, err := db.Exec("INSERT INTO gpu_state SELECT a.* FROM gpu_state AS a, gpu_state AS b, gpu_state AS c, " +
		"gpu_state AS d " +
		"ORDER BY a.rowid")
	require.NoError(t, err)
	_, err = db.Exec("DELETE FROM gpu_state WHERE rowid <= 20") // of times behind which the others begin again
	require.NoError(t, err)
	f := opened(t, dir, month)
	c := f.mustLook(t)
	_, err = c.Fingerprint(t.Context(), c.info.Rows)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.inspect()
	}()
	commits := 0
	for hashing := true; hashing; {
		snapshotstest.Append(t, db, snapshotstest.Schema, rowAt("2025-09-30 10:00:00"))
		select {
		case <-done:
			hashing = false
		default:
			commits++
		}
	}
	require.Greater(t, commits, 1, "a writer that waits for one statement alone commits once at most")
	require.Equal(t, c.info.Edits, f.mustLook(t).info.Edits)
	require.NoError(t, db.Close())
}

var longAgo = time.Date(2025, 10, 1, 12, 0, 0, 0, time.UTC)

// age makes the files of a directory look as if they were written long ago, all at the same time.
func age(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.Chtimes(filepath.Join(dir, f.Name()), longAgo, longAgo))
	}
}

// The fingerprint of rows does not depend on their numbers, also where texts hold the separator and rows are read by
// columns, and it is the same before they were given and after.
func TestFingerprintWithoutNumbers(t *testing.T) {
	var want string
	for _, first := range []int{1, 95, 123456} {
		dir := t.TempDir()
		db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
		snapshotstest.Append(t, db, snapshotstest.Schema, hourly(30)...)
		_, err := db.Exec("UPDATE gpu_state SET RemoteOwner = 'a'||char(31)||'b' WHERE rowid IN (5, 9, 10)")
		require.NoError(t, err)
		_, err = db.Exec("UPDATE gpu_state SET rowid = rowid + ?", 1_000_000)
		require.NoError(t, err)
		_, err = db.Exec("UPDATE gpu_state SET rowid = rowid - ?", 1_000_000-first)
		require.NoError(t, err)
		c := lookAt(t, dir, month)
		before, err := c.Fingerprint(t.Context(), c.info.Rows)
		require.NoError(t, err)
		require.NoError(t, c.Scan(t.Context(), c.info.Rows, &counter{}))
		after, err := c.Fingerprint(t.Context(), c.info.Rows)
		require.NoError(t, err)
		require.Equal(t, before, after)
		if want == "" {
			want = before
		}
		require.Equal(t, want, before, first)
	}
}

func unchanged(t *testing.T, c *content, version string, r months.Range, fingerprint string) bool {
	t.Helper()
	same, err := c.Unchanged(t.Context(), version, r, fingerprint)
	require.NoError(t, err)
	return same
}
