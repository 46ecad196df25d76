package sqlite

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Scan implements months.Content. It hashes the rows that it gives, so that the fingerprint of the range is theirs even
// if an edit is committed right after it.
func (c *content) Scan(ctx context.Context, r months.Range, usage bool, v months.Visitor) error {
	run := &runs{visitor: v, zone: c.file.zone, usage: usage, before: months.None}
	err := c.scan(ctx, r, run)
	switch {
	case run.fellBack && !c.info.Unordered:
		return c.disordered()
	case run.failed != nil:
		return run.failed
	case err != nil:
		return cmp.Or(ctx.Err(), c.explain(err))
	case !r.Empty():
		c.hashes.keep(r, run.hash.sum)
	}
	return nil
}

// lines takes the rows of a table, ascending by rowid.
type lines interface {
	takeLine(rowid int64, row *fields) error
}

// scan reads the rows of a range, a bounded number of them by a statement.
func (c *content) scan(ctx context.Context, r months.Range, to lines) error {
	if r.Empty() {
		return ctx.Err()
	}
	statement, err := c.handle.DB.PrepareContext(ctx, //nolint:gosec // columns are quoted by the schema
		"SELECT "+c.schema.line()+c.schema.sql(" FROM gpu_state WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?"))
	if err != nil {
		return err
	}
	defer statement.Close()
	for !r.Empty() {
		n, err := c.scanSome(ctx, statement, &r, to)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// scanSome is one statement. It moves r.First after the rows that it gave.
func (c *content) scanSome(ctx context.Context, statement *sql.Stmt, r *months.Range, to lines) (n int, err error) {
	rows, err := statement.QueryContext(ctx, r.First, r.Last, maxRows)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var line sql.RawBytes
	var row fields
	for rows.Next() {
		if err := rows.Scan(&line); err != nil {
			return n, err
		}
		rowid, whole := row.split(line)
		if rowid < r.First || rowid > r.Last {
			return n, sqlitefile.ErrCircle
		}
		if !whole {
			if err := row.read(ctx, c.handle.DB, &c.schema, rowid); err != nil {
				return n, err
			}
		}
		r.First = rowid + 1
		n++
		if err := to.takeLine(rowid, &row); err != nil {
			return n, err
		}
	}
	return n, cmp.Or(rows.Err(), ctx.Err())
}

// runs passes rows on to the visitor, and begins a run where the timestamp changes.
type runs struct {
	visitor months.Visitor
	zone    *localtime.Zone
	usage   bool
	hash    rangeHash
	text    []byte
	began   bool
	wanted  bool
	failed  error // the visitor's error, which ends the scan

	before   months.Local // the last timestamp that could be read
	fellBack bool         // rows are out of the order of time
}

// takeLine gives a row to the visitor.
func (r *runs) takeLine(rowid int64, row *fields) error {
	r.hash.add(row)
	if timestamp := row.timestamp(); !r.began || string(r.text) != string(timestamp) {
		local := localOf(r.zone, timestamp)
		if local != months.None {
			r.fellBack = r.fellBack || months.FellBack(r.before, local)
			r.before = local
		} else if sampler, ok := r.visitor.(months.Sampler); ok {
			sampler.Unreadable(string(timestamp))
		}
		r.text, r.began = append(r.text[:0], timestamp...), true
		r.wanted, r.failed = r.visitor.Run(rowid, local)
	}
	if r.wanted && r.failed == nil {
		usage := notMeasured
		if r.usage {
			usage = row.usage()
		}
		r.failed = r.visitor.Row(row.row(), usage)
	}
	return r.failed
}
