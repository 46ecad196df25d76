package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
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
