package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// Places of what is read of a row: the timestamp, the columns, the usage.
const (
	timestampPlace = 0
	firstPlace     = 1
	usagePlace     = firstPlace + snapshots.Columns
	places         = usagePlace + 1
)

// placeNames are the columns by their places.
var placeNames = func() (names [places]string) {
	names[timestampPlace], names[usagePlace] = snapshots.TimestampColumn, snapshots.UsageColumn
	copy(names[firstPlace:], snapshots.ColumnNames[:])
	return names
}()

// required places; where one of the others is missing in a table, it is empty.
var required = []int{
	firstPlace + int(snapshots.Name), firstPlace + int(snapshots.AssignedGPUs), firstPlace + int(snapshots.SlotState),
	firstPlace + int(snapshots.Machine), timestampPlace,
}

// schema says where gpu_state holds the columns.
type schema struct {
	order     []string    // all columns of the table, in order
	positions [places]int // index in order, -1 = missing
	root      int64       // root page
	odd       bool        // records do not hold what a SELECT shows: only SQL reads it
}

// readSchema finds the columns by PRAGMA table_info: in SQLite a missing column's quoted name would be read as a text.
func (c *content) readSchema(ctx context.Context) error {
	s := &c.schema
	var kind string
	err := c.handle.watch.QueryRowContext(ctx,
		"SELECT type, rootpage FROM sqlite_schema WHERE name = 'gpu_state'").Scan(&kind, &s.root)
	if errors.Is(err, sql.ErrNoRows) || err == nil && kind != "table" {
		return errNoTable
	}
	if err != nil {
		return err
	}
	// hidden columns are generated ones; with them, defaults or a key, records do not hold what a SELECT shows
	rows, err := c.handle.watch.QueryContext(ctx, "SELECT name, type, hidden <> 0 OR pk > 0 OR dflt_value IS NOT NULL "+
		"FROM pragma_table_xinfo('gpu_state') ORDER BY cid")
	if err != nil {
		return err
	}
	defer rows.Close()
	var real []bool // columns whose numbers are stored otherwise than shown
	for rows.Next() {
		var name, declared string
		var odd bool
		if err := rows.Scan(&name, &declared, &odd); err != nil {
			return err
		}
		s.order = append(s.order, name)
		real = append(real, isReal(declared))
		s.odd = s.odd || odd
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for place, name := range placeNames {
		at := slices.IndexFunc(s.order, func(o string) bool { return strings.EqualFold(o, name) })
		s.positions[place] = at
		s.odd = s.odd || place != usagePlace && place != timestampPlace && at >= 0 && real[at]
	}
	return s.complete()
}

// complete returns an error if the table lacks a required column.
func (s *schema) complete() error {
	var lacking []string
	for _, place := range required {
		if s.positions[place] < 0 {
			lacking = append(lacking, placeNames[place])
		}
	}
	if len(lacking) > 0 {
		return fmt.Errorf("table gpu_state has no column %s", strings.Join(lacking, ", "))
	}
	return nil
}

// isReal reports whether a column's declared type gives it REAL affinity (https://sqlite.org/datatype3.html, section
// 3.1): SQLite stores such numbers as integers where it can and shows them with a point.
func isReal(declared string) bool {
	declared = strings.ToUpper(declared)
	for _, other := range []string{"INT", "CHAR", "CLOB", "TEXT", "BLOB"} {
		if strings.Contains(declared, other) {
			return false
		}
	}
	return strings.Contains(declared, "REAL") || strings.Contains(declared, "FLOA") || strings.Contains(declared, "DOUB")
}

// localOf reads a timestamp; None if it is none.
func localOf(text []byte) months.Local {
	local, err := localtime.ParseLocal(text)
	if err != nil {
		return months.None
	}
	return local
}
