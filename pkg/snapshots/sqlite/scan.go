package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"math"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// maxRows bounds a statement, so that neither a checkpoint nor a writer waits for a reader.
const maxRows = 20_000

// Scan implements months.Content.
func (c *content) Scan(ctx context.Context, r months.Range, usage bool, v months.Visitor) error {
	run := runs{visitor: v, usage: usage, before: months.None}
	err := c.scan(ctx, &r, &run)
	if run.fellBack && !c.info.Unordered {
		return c.disordered()
	}
	return err
}

func (c *content) scan(ctx context.Context, r *months.Range, run *runs) error {
	if !c.schema.odd && !c.file.plain {
		first, last := r.First, r.Last
		taker := &taker{runs: run, parser: newParser(&c.schema, run.usage)}
		var hashed bool
		if taker.hash, hashed = c.prints.of(first); hashed {
			taker.hash.last = math.MaxInt64
		}
		err := c.scanPages(ctx, r, taker)
		if err == nil && !hashed {
			taker.hash.last = last
			c.prints.keep(first, taker.hash)
		}
		if err == nil || ctx.Err() != nil || run.failed != nil {
			return cmp.Or(run.failed, err)
		}
		if errors.Is(err, sqlitefile.ErrCircle) {
			return c.explain(err)
		}
		// Unusual, or SQLite's own complaint: SQL reads the rest, or says what is wrong.
		run.resumed = true
	}
	return c.scanSQL(ctx, r, run)
}

// taker gives rows to the visitor, and hashes them on the way unless that was done.
type taker struct {
	*runs
	parser *parser
	hash   print
}

func (t *taker) take(rowid int64, record []byte) error {
	if rowid > t.hash.last {
		t.hash.add(rowid, record)
	}
	if err := t.parser.record(record); err != nil {
		return err
	}
	return t.give(rowid, t.parser)
}

// scanSQL is the plain way, and the oracle of the other one.
func (c *content) scanSQL(ctx context.Context, r *months.Range, run *runs) error {
	lines, err := c.handle.db.PrepareContext(ctx, //nolint:gosec // columns are quoted by the schema
		"SELECT "+c.schema.line(run.usage)+" FROM gpu_state WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?")
	if err != nil {
		return c.explain(err)
	}
	defer lines.Close()
	for !r.Empty() {
		n, err := c.page(ctx, lines, r, run)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// page reads one statement's worth of rows and moves r.First behind them.
func (c *content) page(ctx context.Context, lines *sql.Stmt, r *months.Range, run *runs) (n int, err error) {
	rows, err := lines.QueryContext(ctx, r.First, r.Last, maxRows)
	if err != nil {
		return 0, c.explain(err)
	}
	defer rows.Close()
	var line sql.RawBytes
	row := fields{count: count(run.usage)}
	for rows.Next() {
		if err := rows.Scan(&line); err != nil {
			return n, c.explain(err)
		}
		rowid, ok := row.split(line)
		if rowid < r.First || rowid > r.Last {
			return n, c.explain(sqlitefile.ErrCircle)
		}
		if !ok {
			if err := row.read(ctx, c.handle.db, &c.schema, rowid); err != nil {
				return n, c.explain(err)
			}
		}
		r.First = rowid + 1
		n++
		if err := run.give(rowid, &row); err != nil {
			return n, err
		}
	}
	if err := rows.Err(); err != nil {
		return n, c.explain(err)
	}
	return n, ctx.Err()
}

// runs passes rows on to the visitor, and begins a run where the timestamp changes.
type runs struct {
	visitor months.Visitor
	usage   bool
	text    []byte
	began   bool
	wanted  bool
	failed  error // the visitor's error, which ends the scan

	last    int64 // the last row given
	resumed bool  // rows up to it come once more

	before   months.Local // the last timestamp that could be read
	fellBack bool         // rows are out of the order of time
}

// record is a row as it was read.
type record interface {
	timestamp() []byte
	row() snapshots.Row
	usage() float64
}

// give gives a row to the visitor.
func (r *runs) give(rowid int64, read record) error {
	if r.resumed && rowid <= r.last {
		return nil
	}
	r.last = rowid
	if timestamp := read.timestamp(); !r.began || string(r.text) != string(timestamp) {
		local := localOf(timestamp)
		if local != months.None {
			r.fellBack = r.fellBack || months.FellBack(r.before, local)
			r.before = local
		}
		r.text, r.began = append(r.text[:0], timestamp...), true
		r.wanted, r.failed = r.visitor.Run(rowid, local)
	}
	if r.wanted && r.failed == nil {
		r.failed = r.visitor.Row(read.row(), read.usage())
	}
	return r.failed
}
