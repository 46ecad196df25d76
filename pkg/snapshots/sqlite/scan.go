package sqlite

import (
	"cmp"
	"context"
	"slices"

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

// Scan implements months.Content. It hashes the rows that it gives, so that the fingerprint of the range is theirs even
// if an edit is committed right before or after it.
func (c *content) Scan(ctx context.Context, r months.Range, v months.Visitor) error {
	run := &runs{visitor: v, zone: c.file.zone, hash: newHash(r), before: months.None}
	err := c.scan(ctx, r, run.take)
	switch {
	case run.fellBack && !c.info.Unordered:
		c.file.mu.Lock()
		defer c.file.mu.Unlock()
		c.file.unordered = true
		return snapshots.ErrStale
	case run.failed != nil:
		return run.failed
	case err != nil:
		return cmp.Or(ctx.Err(), c.explain(err))
	case !r.Empty():
		c.hashes.keep(r, run.hash.sum)
	}
	return nil
}

// scan reads the rows of a range.
func (c *content) scan(ctx context.Context, r months.Range, visit func(*sqlitefile.Row) error) error {
	return c.table.Read(ctx, c.handle.DB, columns, r.First, r.Last, visit)
}

// runs passes rows on to the visitor, and begins a run where the timestamp changes.
type runs struct {
	visitor months.Visitor
	zone    *localtime.Zone
	hash    rangeHash
	text    string
	buffer  snapshots.Row
	began   bool
	wanted  bool
	failed  error // the visitor's error, which ends the scan

	before   months.Local // the last timestamp that could be read
	fellBack bool         // rows are out of the order of time
}

// take gives a row to the visitor.
func (r *runs) take(row *sqlitefile.Row) error {
	_ = r.hash.add(row) // never fails
	if timestamp := row.Texts[timestampPlace]; !r.began || r.text != string(timestamp) {
		local := localOf(r.zone, timestamp)
		if local != months.None {
			r.fellBack = r.fellBack || months.FellBack(r.before, local)
			r.before = local
		}
		r.text, r.began = string(timestamp), true
		r.wanted, r.failed = r.visitor.Run(row.Number, local, r.text)
	}
	if r.wanted && r.failed == nil {
		r.failed = r.visitor.Row(r.rowOf(row), snapshots.Number(row.Texts[usagePlace]))
	}
	return r.failed
}

// rowOf makes a row of its columns, valid until the next one.
func (r *runs) rowOf(row *sqlitefile.Row) snapshots.Row {
	r.buffer = r.buffer[:0]
	for _, text := range row.Texts[firstPlace:usagePlace] {
		r.buffer = snapshots.AppendText(r.buffer, text)
	}
	return r.buffer
}

// Seek implements months.Content by binary search: rows are appended in the order of time.
func (c *content) Seek(ctx context.Context, from, to months.Local) (months.Range, error) {
	if c.info.Unordered {
		return months.Find(c.info.Stretches, from, to), nil
	}
	if err := c.settle(ctx); err != nil {
		return months.Nothing, err
	}
	if c.info.First == months.None || c.info.Last < from || c.info.First >= to {
		return months.Nothing, nil
	}
	first, _, err := c.find(ctx, from)
	var end, unknown int64
	if err == nil {
		end, unknown, err = c.find(ctx, to)
	}
	if err != nil {
		return months.Nothing, c.explain(err)
	}
	return months.Range{First: first, Last: max(end, unknown) - 1}, nil
}

// find returns the smallest rowid whose timestamp is not before the given one, Last + 1 if there is none. If rows from
// there on cannot be read, unknown is the first readable one after them: those on damaged pages, whose times are
// unknown, count as inside a searched range, so that a reader of the range meets the damage.
func (c *content) find(ctx context.Context, local months.Local) (rowid, unknown int64, err error) {
	rows := c.info.Rows
	if c.info.Last < local {
		return rows.Last + 1, 0, nil
	}
	damaged := map[int64]int64{}
	low, high := rows.First, rows.Last+1 // low <= answer <= high
	for low < high {
		middle := low + (high-low)/2
		at, found, err := c.at(ctx, middle, high-1)
		if err != nil && sqlitefile.IsDamage(err) {
			if at, found, err = c.past(ctx, middle, high); err == nil && found >= local {
				damaged[middle] = at
			}
		}
		switch {
		case err != nil:
			return 0, 0, err
		case found == months.None, found >= local:
			high = middle
		default:
			low = at + 1
		}
	}
	for at, ok := damaged[low]; ok; at, ok = damaged[at] {
		unknown = at
	}
	return low, unknown, nil
}

// past returns the first row after a damaged place that it finds, in growing steps, and its timestamp; the end of the
// search counts as later than any time.
func (c *content) past(ctx context.Context, damaged, end int64) (rowid int64, local months.Local, err error) {
	for step := int64(1); damaged+step < end; step *= 2 {
		rowid, local, err = c.at(ctx, damaged+step, end-1)
		if err == nil && local != months.None || err != nil && !sqlitefile.IsDamage(err) {
			return rowid, local, err
		}
	}
	return end, c.info.Last, nil
}

// at returns the first row from a rowid up to another one with a readable timestamp; None if there is none.
func (c *content) at(ctx context.Context, from, to int64) (rowid int64, local months.Local, err error) {
	return c.first(c.handle.DB.QueryContext(ctx, c.table.SQL("SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state "+
		"WHERE rowid BETWEEN ? AND ? AND timestamp IS NOT NULL ORDER BY rowid"), from, to))
}
