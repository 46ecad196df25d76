package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/chtc/gpureports/pkg/parallel"
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

// scan hashes what it gives, so that who asks for the fingerprint of the range gets that of the rows that were given,
// and they need not be read again.
func (c *content) scan(ctx context.Context, r *months.Range, run *runs) error {
	whole, usual := *r, c.usual()
	if usual {
		taker := &taker{runs: run, parser: newParser(&c.schema, run.usage), hash: emptyPrint(r.First)}
		err := c.scanPages(ctx, r, taker)
		if err == nil {
			c.prints.keep(whole, taker.hash)
		}
		var bug *parallel.Panic
		if err == nil || ctx.Err() != nil || run.failed != nil || errors.As(err, &bug) {
			return cmp.Or(run.failed, err)
		}
		if errors.Is(err, sqlitefile.ErrCircle) {
			return c.explain(err)
		}
		// Unusual, or SQLite's own complaint: SQL reads the rest, or says what is wrong.
		run.resumed = true
	}
	taker := &lineTaker{runs: run, hash: emptyPrint(r.First)}
	err := c.scanSQL(ctx, r, taker)
	if err == nil && !usual {
		c.prints.keep(whole, taker.hash)
	}
	return err
}

// usual reports whether rows are read as pages, as long as nothing is odd about these.
func (c *content) usual() bool { return !c.schema.odd && !c.file.plain }

// taker gives rows to the visitor, and hashes them on the way.
type taker struct {
	*runs
	parser *parser
	hash   print
}

func (t *taker) take(rowid int64, record []byte) error {
	t.hash.add(rowid, record)
	if err := t.parser.record(record); err != nil {
		return err
	}
	return t.give(rowid, t.parser)
}

// lineTaker does the same with rows that SQL gives.
type lineTaker struct {
	*runs
	hash print
}

func (t *lineTaker) takeLine(rowid int64, row *fields) error {
	t.hash.add(rowid, row.line)
	return t.give(rowid, row)
}

// lines takes the rows of a table as SQL gives them, ascending.
type lines interface {
	takeLine(rowid int64, row *fields) error
}

// scanSQL is the plain way, and the oracle of the other one. It moves r.First behind the rows that were given.
func (c *content) scanSQL(ctx context.Context, r *months.Range, to lines) error {
	statement, err := c.handle.db.PrepareContext(ctx, //nolint:gosec // columns are quoted by the schema
		"SELECT "+c.schema.line()+" FROM gpu_state WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?")
	if err != nil {
		return c.explain(err)
	}
	defer statement.Close()
	for !r.Empty() {
		n, err := c.page(ctx, statement, r, to)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// page reads one statement's worth of rows.
func (c *content) page(ctx context.Context, statement *sql.Stmt, r *months.Range, to lines) (n int, err error) {
	rows, err := statement.QueryContext(ctx, r.First, r.Last, maxRows)
	if err != nil {
		return 0, c.explain(err)
	}
	defer rows.Close()
	var line sql.RawBytes
	var row fields
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
		if err := to.takeLine(rowid, &row); err != nil {
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
		usage := notMeasured
		if r.usage {
			usage = read.usage()
		}
		r.failed = r.visitor.Row(read.row(), usage)
	}
	return r.failed
}
