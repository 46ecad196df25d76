package sqlite

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
)

// formats are the ways of reading.
var formats = map[string]months.Format{"pages": Format, "plain SQL": PlainSQL}

// An edit of any row shows in the fingerprint of its range, and in no other, for another process too; what is edited
// back has the fingerprint that it had.
func TestEveryEditShowsInTheFingerprint(t *testing.T) {
	for name, format := range formats {
		t.Run(name, func(t *testing.T) { everyEditShows(t, format) })
	}
}

func everyEditShows(t *testing.T, format months.Format) {
	t.Helper()
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(4000)...)
	edited, other := months.Range{First: 1001, Last: 2000}, months.Range{First: 2001, Last: 4000}
	prints := func() (string, string) {
		c := openedAs(t, format, dir, month).mustLook(t)
		a, err := c.Fingerprint(t.Context(), edited)
		require.NoError(t, err)
		b, err := c.Fingerprint(t.Context(), other)
		require.NoError(t, err)
		return a, b
	}
	first, second := prints()
	require.NotEqual(t, first, second)
	random := rand.New(rand.NewPCG(7, 1))
	for range 25 {
		row := 1001 + random.IntN(1000)
		_, err := db.Exec("UPDATE gpu_state SET State = 'Unclaimec' WHERE rowid = ?", row)
		require.NoError(t, err)
		a, b := prints()
		require.NotEqual(t, first, a, "row %d", row)
		require.Equal(t, second, b, "row %d", row)
		_, err = db.Exec("UPDATE gpu_state SET State = 'Unclaimed' WHERE rowid = ?", row)
		require.NoError(t, err)
		a, b = prints()
		require.Equal(t, []string{first, second}, []string{a, b})
	}
	require.NoError(t, db.Close())
}

// The fingerprint of a range that grows is continued, and is what another process finds from the beginning; also where
// a scan read the range, in either way of reading.
func TestFingerprintsGrow(t *testing.T) {
	for _, way := range []struct {
		journal string
		format  months.Format
	}{{"DELETE", Format}, {"WAL", Format}, {"DELETE", PlainSQL}} {
		dir, journal := t.TempDir(), way.journal
		lookAt := func(t *testing.T, dir, name string) *content { return openedAs(t, way.format, dir, name).mustLook(t) }
		db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode="+journal)
		rows := hourly(900)
		snapshotstest.Append(t, db, snapshotstest.Schema, rows[:100]...)
		f := openedAs(t, way.format, dir, month)
		for n := 100; n < len(rows); n += 100 {
			c := f.mustLook(t)
			for _, r := range []months.Range{c.info.Rows, {First: 51, Last: c.info.Rows.Last}} {
				if n == 300 {
					require.NoError(t, c.Scan(t.Context(), r, n%200 == 0, &tape{}))
				}
				got, err := c.Fingerprint(t.Context(), r)
				require.NoError(t, err)
				want, err := lookAt(t, dir, month).Fingerprint(t.Context(), r)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s, %d rows", journal, n)
				scanned := lookAt(t, dir, month)
				require.NoError(t, scanned.Scan(t.Context(), r, true, &tape{}))
				got, err = scanned.Fingerprint(t.Context(), r)
				require.NoError(t, err)
				require.Equal(t, want, got, "%s, %d rows, scanned", journal, n)
			}
			snapshotstest.Append(t, db, snapshotstest.Schema, rows[n:n+100]...)
		}
		require.NoError(t, db.Close())
	}
}

// A fingerprint that is asked for after a scan is that of the rows that the scan gave, whatever was known before it or
// was committed after it: what is made of them is kept under it.
func TestFingerprintOfWhatWasScanned(t *testing.T) {
	for name, format := range formats {
		dir := t.TempDir()
		db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
		snapshotstest.Append(t, db, snapshotstest.Schema, hourly(500)...)
		r := months.Range{First: 100, Last: 400}
		print := func(c *content) string {
			text, err := c.Fingerprint(t.Context(), r)
			require.NoError(t, err)
			return text
		}
		anew := func() string { return print(openedAs(t, format, dir, month).mustLook(t)) }
		edit := func() {
			_, err := db.Exec("UPDATE gpu_state SET State = State || 'x' WHERE rowid = 222")
			require.NoError(t, err)
		}
		scanned, known := openedAs(t, format, dir, month).mustLook(t), openedAs(t, format, dir, month).mustLook(t)
		before := anew()
		require.NoError(t, scanned.Scan(t.Context(), r, false, &tape{}))
		require.Equal(t, before, print(known), name)
		edit()
		require.Equal(t, before, print(scanned), name)
		require.NoError(t, known.Scan(t.Context(), r, true, &tape{}))
		after := anew()
		require.NotEqual(t, before, after, name)
		edit()
		require.Equal(t, after, print(known), name)
		require.NoError(t, db.Close())
	}
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
		print, err := openedAs(t, PlainSQL, dir, month).mustLook(t).Fingerprint(t.Context(), months.Range{First: 1, Last: 1})
		require.NoError(t, err)
		require.False(t, seen[print], "%q", texts)
		seen[print] = true
	}
}

// A file that grew and was edited between two looks is one that was edited: of a small one also if both happened in one
// transaction, of a large one if they were two.
func TestEditsBesideAppendedRows(t *testing.T) {
	for _, journal := range []string{"DELETE", "WAL"} {
		editsBesideAppendedRows(t, journal)
	}
}

func editsBesideAppendedRows(t *testing.T, journal string) {
	t.Helper()
	for _, c := range []struct {
		name   string
		filler int // bytes of each row
		edit   string
		one    bool // transaction
	}{
		{"small, two commits", 0, "UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 777", false},
		{"small, one commit", 0, "UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 777", true},
		{"large, two commits", 20_000, "UPDATE gpu_state SET State = 'Claimed' WHERE rowid = 777", false},
		{"small, nothing", 0, "", true},
		{"large, nothing", 20_000, "", true},
	} {
		dir := t.TempDir()
		db := snapshotstest.Open(t, dir, month, snapshotstest.Schema, "journal_mode="+journal)
		db.SetMaxOpenConns(1)
		rows := hourly(1200)
		for _, r := range rows {
			r["GlobalJobId"] = strings.Repeat("x", c.filler)
		}
		snapshotstest.Append(t, db, snapshotstest.Schema, rows[:1000]...)
		if journal == "WAL" { // all of it into the file; the next commit begins a log
			for _, sql := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "UPDATE gpu_state SET State = '' WHERE rowid = 1"} {
				_, err := db.Exec(sql)
				require.NoError(t, err)
			}
		}
		f := opened(t, dir, month)
		before := f.mustLook(t)
		require.Equal(t, c.filler > 0, before.size > affordable, "%s", c.name)
		if c.one {
			_, err := db.Exec("BEGIN")
			require.NoError(t, err)
		}
		if c.edit != "" {
			_, err := db.Exec(c.edit)
			require.NoError(t, err)
		}
		_, err := db.Exec("INSERT INTO gpu_state SELECT * FROM gpu_state WHERE rowid = 1000")
		require.NoError(t, err)
		if c.one {
			_, err := db.Exec("COMMIT")
			require.NoError(t, err)
		}
		after := f.mustLook(t)
		require.NotSame(t, before, after)
		require.EqualValues(t, 1001, after.info.Rows.Last)
		if c.edit == "" {
			require.Equal(t, before.info.Edits, after.info.Edits, c.name)
		} else {
			require.NotEqual(t, before.info.Edits, after.info.Edits, c.name)
		}
		require.NoError(t, db.Close())
	}
}

// A witness is the same for another process while nothing is written, and another one after any commit.
func TestWitness(t *testing.T) {
	dir := t.TempDir()
	db := snapshotstest.Open(t, dir, month, snapshotstest.Schema)
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(50)...)
	require.Empty(t, lookAt(t, dir, month).Witness(), "it was written just now")
	age(t, dir)
	before := lookAt(t, dir, month).Witness()
	require.NotEmpty(t, before)
	require.Equal(t, before, lookAt(t, dir, month).Witness())
	_, err := db.Exec("UPDATE gpu_state SET State = 'Unclaimec' WHERE rowid = 7")
	require.NoError(t, err)
	age(t, dir) // as a copying program does that keeps times
	require.NotEqual(t, before, lookAt(t, dir, month).Witness())
	require.NoError(t, db.Close())

	wal := t.TempDir()
	db = snapshotstest.Open(t, wal, month, snapshotstest.Schema, "journal_mode=WAL")
	snapshotstest.Append(t, db, snapshotstest.Schema, hourly(50)...)
	age(t, wal)
	require.Empty(t, lookAt(t, wal, month).Witness(), "a log lies beside it")
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
