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
