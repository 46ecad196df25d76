package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// content implements months.Content. The numbers of its rows are rowids.
type content struct {
	file   *file
	handle *sqlitefile.Handle
	info   months.Info
	table  *sqlitefile.Table
	hashes *hashes
	trace  trace // at the last look that found no other change; file.mu guards it
}

func (c *content) Info() *months.Info { return &c.info }

// explain makes an error fit for a user; a failure because the file was closed or replaced in the meantime is ErrStale.
func (c *content) explain(err error) error {
	if c.handle.Retired() {
		return snapshots.ErrStale
	}
	return c.file.explain(err)
}

// appendedTo reports whether the content has more rows than an earlier one, and the same at a glance before them.
func (c *content) appendedTo(before *content) bool {
	return before != nil && c.info.Rows.Last > before.info.Rows.Last &&
		(c.info.Rows.First == before.info.Rows.First || before.info.Rows.Empty()) &&
		c.info.Unordered == before.info.Unordered && slices.Equal(c.info.Columns, before.info.Columns)
}

// load fills in the content of the file.
func (c *content) load(ctx context.Context, before *content) (err error) {
	if c.table, err = sqlitefile.FindTable(ctx, c.handle.Conn, "gpu_state"); err != nil {
		return err
	}
	if err := snapshots.CheckColumns(c.table.Has); err != nil {
		return err
	}
	// Find the first and the last row, and the times of those that have one.
	var first, last sql.NullInt64
	err = c.handle.Conn.QueryRowContext(ctx, // in one statement: no commit lies between them
		c.table.SQL("SELECT (SELECT min(rowid) FROM gpu_state), (SELECT max(rowid) FROM gpu_state)")).Scan(&first, &last)
	if err != nil {
		return err
	}
	c.info.Columns, c.info.First, c.info.Last = c.table.Columns, months.None, months.None
	if c.info.Rows = months.Nothing; !first.Valid {
		c.info.Unordered = false
		return nil
	}
	c.info.Rows = months.Range{First: first.Int64, Last: last.Int64}
	_, c.info.First, err = c.first(c.handle.Conn.QueryContext(ctx, c.table.SQL(upwards), first.Int64))
	if err != nil {
		return err
	}
	_, c.info.Last, err = c.first(c.handle.Conn.QueryContext(ctx, c.table.SQL(downwards), last.Int64))
	if err != nil {
		return err
	}
	if c.info.First == months.None {
		var sample sql.NullString
		if err := c.handle.Conn.QueryRowContext(ctx, "SELECT CAST(max(timestamp) AS TEXT) FROM gpu_state").
			Scan(&sample); err != nil {
			return err
		}
		c.info.Sample = sample.String
	}
	// See whether rows are out of order, as far as the ends and the appended rows tell.
	c.info.Unordered = c.info.Unordered || months.FellBack(c.info.First, c.info.Last) ||
		months.TooLong(c.info.First, c.info.Last)
	if !c.info.Unordered && c.appendedTo(before) {
		c.info.Unordered, err = c.fellBack(ctx, c.handle.Conn, before.info.Rows.Last+1, before.info.Last)
	}
	if !c.info.Unordered || err != nil {
		return err
	}
	// Find out where which times are.
	if c.appendedTo(before) {
		c.info.Stretches = before.info.Stretches
	}
	return c.readStretches(ctx)
}

// fellBack reports whether rows from a number onward are out of order. highest is the latest time before them.
func (c *content) fellBack(ctx context.Context, conn sqlitefile.Querier, first int64, highest months.Local) (
	unordered bool, err error) {
	err = c.timestamps(ctx, conn, first, func(_ int64, local months.Local) {
		unordered = unordered || months.FellBack(highest, local)
		highest = max(highest, local)
	})
	return unordered, err
}

// readStretches reads the timestamps of all rows that are new to the stretches.
func (c *content) readStretches(ctx context.Context) error {
	stretches, next := slices.Clone(c.info.Stretches), c.info.Rows.First
	if n := len(stretches); n > 0 {
		next = stretches[n-1].Rows.Last + 1
	}
	err := c.timestamps(ctx, c.handle.Conn, next, func(rowid int64, local months.Local) {
		stretches = months.Order(stretches, rowid, local)
	})
	c.info.Stretches = stretches
	return err
}

// timestamps visits the rows from a rowid onward.
func (c *content) timestamps(ctx context.Context, conn sqlitefile.Querier, next int64,
	visit func(rowid int64, local months.Local)) error {
	err := c.table.Read(ctx, conn, []string{snapshots.TimestampColumn}, next, c.info.Rows.Last,
		func(row *sqlitefile.Row) error {
			visit(row.Number, localOf(c.file.zone, row.Texts[0]))
			return nil
		})
	if err != nil {
		return fmt.Errorf("reading the order of rows: %w", err)
	}
	return nil
}

// Queries for timestamps from a rowid onward.
const (
	upwards = "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state " +
		"WHERE rowid >= ? AND timestamp IS NOT NULL ORDER BY rowid" // #nosec G101 -- no credentials
	downwards = "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state " +
		"WHERE rowid <= ? AND timestamp IS NOT NULL ORDER BY rowid DESC"
)

// first returns the first row with a readable timestamp that a query found, None if there is none. err is the query's.
func (c *content) first(rows *sql.Rows, err error) (rowid int64, local months.Local, _ error) {
	if err != nil {
		return 0, months.None, err
	}
	defer rows.Close()
	var found sql.RawBytes
	var before [2]int64 // the rowids of the two rows before
	for n := 0; rows.Next(); n++ {
		if err := rows.Scan(&rowid, &found); err != nil {
			return 0, months.None, err
		}
		if local := localOf(c.file.zone, found); local != months.None {
			return rowid, local, nil
		}
		if n > 0 && rowid == before[1] || n > 1 && (rowid > before[1]) != (before[1] > before[0]) {
			return 0, months.None, sqlitefile.ErrCircle
		}
		before = [2]int64{before[1], rowid}
	}
	return 0, months.None, rows.Err()
}

// localOf reads a timestamp; None if it is none.
func localOf(zone *localtime.Zone, text []byte) months.Local {
	local, err := zone.ReadLocal(text)
	if err != nil {
		return months.None
	}
	return local
}
