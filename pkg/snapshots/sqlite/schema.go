package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Places of the values read of a row: the timestamp, the columns, the usage.
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
	rowid     string      // a name of the rowid that no column has
}

// sql is a query with the name of the rowid.
func (s *schema) sql(query string) string { return strings.ReplaceAll(query, "rowid", s.rowid) }

// readSchema finds the columns.
func (c *content) readSchema(ctx context.Context) (err error) {
	s := &c.schema
	if s.order, err = sqlitefile.Columns(ctx, c.handle.Conn, "gpu_state"); err != nil {
		return err
	}
	if s.rowid, err = sqlitefile.Rowid(ctx, c.handle.Conn, "gpu_state", s.order); err != nil {
		return err
	}
	if s.rowid == "" {
		return errNoTable
	}
	for place, name := range placeNames {
		s.positions[place] = slices.IndexFunc(s.order, func(o string) bool { return strings.EqualFold(o, name) })
	}
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

// localOf reads a timestamp; None if it is none.
func localOf(zone *localtime.Zone, text []byte) months.Local {
	local, err := zone.ReadLocal(text)
	if err != nil {
		return months.None
	}
	return local
}
