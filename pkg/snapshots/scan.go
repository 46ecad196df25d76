package snapshots

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
)

// Visitor takes the rows of a scan, in the order of rowid. What it is given is valid only during the call.
type Visitor interface {
	// Snapshot begins a run of rows with the same timestamp ("" for NULL), at its first row. false: its rows are not wanted.
	Snapshot(rowid int64, timestamp []byte) (wanted bool, err error)
	// Row is one of its rows.
	Row(row Row) error
}

// maxRows bounds a statement, so that neither a checkpoint nor a writer waits for a reader.
const maxRows = 20_000

// Scan gives the rows of a range to the visitor. Its errors end the scan.
func (f *File) Scan(ctx context.Context, s State, r Rowids, v Visitor) error {
	run := runs{visitor: v}
	defer func() {
		if run.fellBack {
			f.disordered.Store(true)
		}
	}()
	if !s.schema.odd && !f.dir.PlainSQL {
		err := f.scanPages(ctx, s, &r, &run)
		if err == nil || ctx.Err() != nil || run.failed != nil {
			return cmp.Or(run.failed, err)
		}
		if errors.Is(err, errCircle) {
			return f.explain(err)
		}
		// Unusual, or SQLite's own complaint: SQL reads the rest, or says what is wrong.
		run.resumed = true
	}
	return f.scanSQL(ctx, s, r, &run)
}

// scanSQL is the plain way, and the oracle of the other one.
func (f *File) scanSQL(ctx context.Context, s State, r Rowids, run *runs) error {
	lines, err := f.db.PrepareContext(ctx, "SELECT "+s.schema.line()+" FROM gpu_state WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?")
	if err != nil {
		return f.explain(err)
	}
	defer lines.Close()
	for !r.Empty() {
		n, err := f.page(ctx, &s.schema, lines, &r, run)
		if err != nil || n == 0 {
			return err
		}
	}
	return nil
}

// page reads one statement's worth of rows and moves r.First behind them.
func (f *File) page(ctx context.Context, s *schema, lines *sql.Stmt, r *Rowids, run *runs) (n int, err error) {
	rows, err := lines.QueryContext(ctx, r.First, r.Last, maxRows)
	if err != nil {
		return 0, f.explain(err)
	}
	defer rows.Close()
	var line sql.RawBytes
	var row fields
	for rows.Next() {
		if err := rows.Scan(&line); err != nil {
			return n, f.explain(err)
		}
		rowid, ok := row.split(line)
		if rowid < r.First || rowid > r.Last {
			return n, f.explain(errCircle)
		}
		if !ok {
			if err := row.read(ctx, f.db, s, rowid); err != nil {
				return n, f.explain(err)
			}
		}
		r.First = rowid + 1
		n++
		if err := run.give(rowid, &row); err != nil {
			return n, err
		}
	}
	if err := rows.Err(); err != nil {
		return n, f.explain(err)
	}
	return n, ctx.Err()
}

// runs tells the visitor when the timestamp changes.
type runs struct {
	visitor Visitor
	text    []byte
	began   bool
	wanted  bool
	failed  error // the visitor's error, which ends the scan

	last    int64 // the last row given
	resumed bool  // rows up to it come once more

	before   string // the last timestamp that could be read
	fellBack bool   // rows stand out of the order of time
}

// texts is a row as it was read.
type texts interface {
	timestamp() []byte
	row() Row
}

// give gives a row to the visitor.
func (r *runs) give(rowid int64, t texts) error {
	if r.resumed && rowid <= r.last {
		return nil
	}
	r.last = rowid
	if timestamp := t.timestamp(); !r.began || string(r.text) != string(timestamp) {
		if !unreadable(timestamp) {
			r.fellBack = r.fellBack || fellBack(r.before, string(timestamp))
			r.before = string(timestamp)
		}
		r.text, r.began = append(r.text[:0], timestamp...), true
		r.wanted, r.failed = r.visitor.Snapshot(rowid, timestamp)
	}
	if r.wanted && r.failed == nil {
		r.failed = r.visitor.Row(t.row())
	}
	return r.failed
}
