package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
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

// tape keeps all that a scan gives.
type tape struct {
	lines []string
	skip  func(local months.Local) bool
}

func (t *tape) Run(number int64, local months.Local, _ string) (bool, error) {
	t.lines = append(t.lines, fmt.Sprintf("%d at %d", number, local))
	return t.skip == nil || !t.skip(local), nil
}

func (t *tape) Row(row snapshots.Row, usage float64) error {
	t.lines = append(t.lines, fmt.Sprintf("%q %v", row.Columns(), usage))
	return nil
}

// opened opens a month file of a directory.
func opened(t testing.TB, dir, name string) *file {
	t.Helper()
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	f := Format.Open(d, name, localtime.UTC).(*file)
	t.Cleanup(func() {
		f.Close()
		require.NoError(t, d.Close())
	})
	return f
}

func (f *file) mustLook(t testing.TB) *content {
	t.Helper()
	c, err := f.Look(t.Context(), true)
	require.NoError(t, err)
	return c.(*content)
}

// lookAt opens a month file and returns its content.
func lookAt(t testing.TB, dir, name string) *content {
	t.Helper()
	return opened(t, dir, name).mustLook(t)
}

const month = "gpu_state_2025-09.db"

// drawFile makes a month file as no collector would: any order and type of columns, page size, overflowing texts,
// numbers in text columns, blobs, deleted rows.
func drawFile(t *rapid.T, tt *testing.T, dir string) {
	types := []string{"TEXT", "TEXT", "TEXT", "BIGINT", "", "NUMERIC", "BLOB", "FLOAT", "VARCHAR(20) COLLATE NOCASE"}
	var schema []string
	for _, name := range append([]string{snapshots.TimestampColumn, "Disk", "Other"},
		append(snapshots.ColumnNames[:], snapshots.UsageColumn)...) {
		if (name == snapshots.ColumnNames[snapshots.DeviceName] || name == "Disk" || name == snapshots.UsageColumn ||
			name == snapshots.ColumnNames[snapshots.PreventJobsReason]) && rapid.Bool().Draw(t, "missing") {
			continue
		}
		declared := rapid.SampledFrom(types).Draw(t, "type")
		if name == snapshots.TimestampColumn {
			declared = "DATETIME"
		}
		schema = append(schema, strings.TrimSpace(`"`+name+`" `+declared))
	}
	schema = rapid.Permutation(schema).Draw(t, "order")
	pragmas := []string{
		fmt.Sprintf("page_size=%d", rapid.SampledFrom([]int{512, 1024, 4096, 65536}).Draw(t, "page")),
		fmt.Sprintf("auto_vacuum=%d", rapid.IntRange(0, 2).Draw(t, "vacuum")),
		"journal_mode=" + rapid.SampledFrom([]string{"DELETE", "WAL"}).Draw(t, "journal"),
	}
	db := snapshotstest.Open(tt, dir, month, schema, pragmas...)
	values := rapid.OneOf(
		rapid.SampledFrom([]any{nil, "", "x", "Claimed", "GPU-a0223334", int64(0), int64(1), int64(-1), int64(200),
			int64(-40000), int64(1 << 40), 1.5, 3.0, []byte{0, 255}, "ünï\x00code", "'\"--"}),
		rapid.Map(rapid.IntRange(0, 9000), func(n int) any { return strings.Repeat("long ", n/5) }),
	)
	var rows []snapshotstest.Row
	text := time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)
	for range rapid.IntRange(0, 120).Draw(t, "rows") {
		if rapid.IntRange(0, 5).Draw(t, "next") == 0 {
			text = text.Add(15 * time.Minute)
		}
		row := snapshotstest.Row{snapshots.TimestampColumn: text.Format("2006-01-02 15:04:05.000000")}
		if rapid.IntRange(0, 20).Draw(t, "odd time") == 0 {
			row[snapshots.TimestampColumn] = rapid.SampledFrom([]any{nil, "soon", int64(5)}).Draw(t, "time")
		}
		for _, column := range schema {
			name := strings.Trim(strings.Split(column, " ")[0], `"`)
			if name != snapshots.TimestampColumn {
				row[name] = values.Draw(t, name)
			}
		}
		rows = append(rows, row)
	}
	snapshotstest.Append(tt, db, schema, rows...)
	if rapid.Bool().Draw(t, "delete") {
		_, err := db.Exec("DELETE FROM gpu_state WHERE rowid % 7 = 3")
		require.NoError(t, err)
	}
	if rapid.Bool().Draw(t, "add column") {
		_, err := db.Exec("ALTER TABLE gpu_state ADD COLUMN Later TEXT" + rapid.SampledFrom([]string{"",
			" DEFAULT 'x'"}).Draw(t, "default"))
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
}

// columnByColumn reads a row; false: there is none.
func columnByColumn(t *testing.T, c *content, row *sqlitefile.Row) bool {
	var expressions []string
	var targets []any
	for i, column := range columns {
		expression := "NULL"
		if c.table.Has(column) {
			expression = "CAST(" + sqlitefile.Quoted(column) + " AS TEXT)"
		}
		expressions, targets = append(expressions, expression), append(targets, &row.Texts[i])
	}
	err := c.handle.DB.QueryRow("SELECT "+strings.Join(expressions, ", ")+" FROM gpu_state WHERE rowid = ?", row.Number).
		Scan(targets...)
	if errors.Is(err, sql.ErrNoRows) {
		return false
	}
	require.NoError(t, err)
	return true
}

// A scan gives the values of the rows' own columns, for any file and range.
func TestScanGivesTheColumns(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		dir, err := os.MkdirTemp(tt.TempDir(), "")
		require.NoError(t, err)
		drawFile(t, tt, dir)
		c := lookAt(tt, dir, month)
		r := months.Range{First: rapid.Int64Range(-3, 130).Draw(t, "first"), Last: rapid.Int64Range(-3, 130).Draw(t, "last")}
		skip := func(local months.Local) bool { return local/pool.Minute%60 == 15 }
		want, got := &tape{skip: skip}, &tape{skip: skip}
		by := &runs{visitor: want, before: months.None}
		for rowid := r.First; rowid <= r.Last; rowid++ {
			row := sqlitefile.Row{Number: rowid, Texts: make([][]byte, len(columns))}
			if columnByColumn(tt, c, &row) {
				require.NoError(t, by.take(&row))
			}
		}
		require.NoError(t, c.Scan(tt.Context(), r, got))
		require.Equal(t, want.lines, got.lines)
	})
}
