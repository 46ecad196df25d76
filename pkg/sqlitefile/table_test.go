package sqlitefile_test

import (
	"database/sql"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// A row with the largest number there is is read once: no number is behind it.
func TestLargestNumber(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "x.db"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE x(a); INSERT INTO x(rowid, a) VALUES (1, 'one'), (?, 'last')", int64(math.MaxInt64))
	require.NoError(t, err)
	table, err := sqlitefile.FindTable(t.Context(), db, "x")
	require.NoError(t, err)
	var found []string
	require.NoError(t, table.Read(t.Context(), db, []string{"a"}, math.MinInt64, math.MaxInt64,
		func(row *sqlitefile.Row) error {
			found = append(found, string(row.Texts[0]))
			return nil
		}))
	require.Equal(t, []string{"one", "last"}, found)
}
