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

// columns are those that are read of a row: the timestamp, the columns of a snapshots.Row, and the usage.
var columns = slices.Concat([]string{snapshots.TimestampColumn}, snapshots.ColumnNames[:],
	[]string{snapshots.UsageColumn})

// Their places.
const (
	timestampPlace = 0
	firstPlace     = 1
	usagePlace     = firstPlace + snapshots.Columns
)

// findTable finds the table and its columns.
func (c *content) findTable(ctx context.Context) (err error) {
	if c.table, err = sqlitefile.FindTable(ctx, c.handle.Conn, "gpu_state"); err != nil {
		return err
	}
	if lacking := slices.DeleteFunc(slices.Clone(snapshots.RequiredColumns), c.table.Has); len(lacking) > 0 {
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
