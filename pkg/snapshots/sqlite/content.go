package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// content implements months.Content. The numbers of its rows are rowids.
type content struct {
	file   *file
	handle *handle
	info   months.Info
	schema schema

	header  header
	log     log
	witness string
	size    int64   // of the file
	samples []int64 // rowids whose hashes show that a file did not only grow
	hashes  []uint64
	all     string // the hash of all rows, see hashAll
	prints  *prints
}

// Witness implements months.Content.
func (c *content) Witness() string { return c.witness }

// Info implements months.Content.
func (c *content) Info() *months.Info { return &c.info }

// explain makes an error fit for a user; what goes wrong because the file was closed or replaced meanwhile is ErrStale.
func (c *content) explain(err error) error {
	if c.handle.retired.Load() {
		return snapshots.ErrStale
	}
	return c.file.explain(err)
}

// disordered is what a search or a scan returns that comes upon rows out of order.
func (c *content) disordered() error {
	c.file.disordered.Store(true)
	return snapshots.ErrStale
}

// look returns what the file holds now. The file is open and locked.
func (f *file) look(ctx context.Context) (*content, error) {
	h, now := f.handle, f.traces()
	changed, err := h.changed(ctx, now)
	if err != nil {
		return nil, err
	}
	if f.stale = f.stale || changed; !f.stale && f.last != nil && f.last.info.Unordered == f.disordered.Load() {
		h.seen = now
		return f.last, nil
	}
	f.stale = true // until this look succeeds
	c := &content{file: f, handle: h, info: months.Info{Warning: h.warning, Exact: true}, size: now.file.size,
		prints: newPrints()}
	if err := c.readWithLog(ctx); err != nil {
		return nil, err
	}
	grew, err := c.onlyGrew(ctx, f.last)
	if err != nil {
		return nil, err
	}
	if !grew || f.last == nil || c.info.Unordered != f.last.info.Unordered {
		f.edits++
	} else {
		c.prints = f.last.prints
	}
	c.info.Edits = f.edits
	if c.info.Unordered {
		f.disordered.Store(true)
		if grew && f.last != nil {
			c.info.Stretches = slices.Clone(f.last.info.Stretches)
		}
		if err := c.readStretches(ctx); err != nil {
			return nil, err
		}
	}
	c.samples = sampled(c.info.Rows)
	if c.hashes, err = c.hash(ctx, c.samples); err != nil && sqlitefile.IsDamage(err) {
		c.samples, c.hashes, err = nil, nil, nil // the damage shows where its rows are read
	}
	if err != nil {
		return nil, err
	}
	c.witness = now.witness(c.header)
	f.last, f.stale, h.seen = c, false, now
	return c, nil
}

// onlyGrew reports whether all that happened since an earlier content is that rows were appended. Where it is in doubt,
// the days' fingerprints are compared.
func (c *content) onlyGrew(ctx context.Context, before *content) (bool, error) {
	if before == nil {
		_, err := c.hashAll(ctx, 0)
		return false, err
	}
	now, then := c.info.Rows, before.info.Rows
	hash, err := c.hashAll(ctx, then.Last)
	if err != nil {
		return false, err
	}
	if now.First != then.First && !then.Empty() || now.Last <= then.Last ||
		!slices.Equal(c.info.Columns, before.info.Columns) {
		return false, nil
	}
	if c.all != "" && before.all != "" {
		return hash == before.all, nil
	}
	hashes, err := c.hash(ctx, before.samples)
	if err != nil && sqlitefile.IsDamage(err) {
		return false, nil
	}
	if err != nil || !slices.Equal(hashes, before.hashes) {
		return false, err
	}
	return c.appendedAlone(ctx, before)
}

// readWithLog fills in what the file and its log hold. The log is read first: a commit that comes between is one too
// many later, never one too few.
func (c *content) readWithLog(ctx context.Context) error {
	if before := c.file.last; before != nil {
		c.log = before.log
	}
	c.log = c.file.log(ctx, c.log)
	if err := c.read(ctx); err != nil {
		return err
	}
	if c.log.commits > 0 && !c.shows(ctx) {
		c.log = log{}
	}
	return nil
}

// sampled returns some rowids of a range, the first and the last among them.
func sampled(r months.Range) []int64 {
	const samples = 16
	var rowids []int64
	for i := int64(0); i < samples && !r.Empty(); i++ {
		rowids = append(rowids, r.First+(r.Last-r.First)*i/(samples-1))
	}
	return slices.Compact(rowids)
}

// read fills in what the file holds.
func (c *content) read(ctx context.Context) error {
	if err := c.readSchema(ctx); err != nil {
		return err
	}
	var first, last sql.NullInt64
	var page []byte // in one statement: no commit lies between them
	err := c.handle.watch.QueryRowContext(ctx, "SELECT (SELECT min(rowid) FROM gpu_state), "+
		"(SELECT max(rowid) FROM gpu_state), (SELECT data FROM sqlite_dbpage WHERE pgno = 1)").Scan(&first, &last, &page)
	if err != nil {
		return err
	}
	c.header = headerOf(page)
	c.info.Columns, c.info.First, c.info.Last = c.schema.order, months.None, months.None
	if c.info.Rows = months.Nothing; !first.Valid {
		return nil
	}
	c.info.Rows = months.Range{First: first.Int64, Last: last.Int64}
	if c.info.First, err = c.local(ctx, upwards, first.Int64); err != nil {
		return err
	}
	if c.info.Last, err = c.local(ctx, downwards, last.Int64); err != nil {
		return err
	}
	c.info.Unordered, err = c.unordered(ctx)
	return err
}

// unordered samples the file: a timestamp more than an hour earlier than one before it was not appended in the order of
// time.
func (c *content) unordered(ctx context.Context) (bool, error) {
	const probes = 64
	first, last := c.info.First, c.info.Last
	if c.file.disordered.Load() || months.FellBack(first, last) || months.TooLong(first, last) {
		return true, nil
	}
	rows := c.info.Rows
	if before := c.file.last; before != nil && before.info.Rows.First == rows.First && rows.Last >= before.info.Rows.Last {
		local, err := c.local(ctx, upwards, before.info.Rows.Last+1) // it was in order, and only grew
		return months.FellBack(before.info.Last, local), err
	}
	probe, err := c.handle.watch.PrepareContext(ctx, upwards)
	if err != nil {
		return false, err
	}
	defer probe.Close()
	highest := months.None
	for i := int64(0); i <= probes; i++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		local, err := found(probe.QueryContext(ctx, rows.First+(rows.Last-rows.First)/probes*i))
		switch {
		case err != nil && sqlitefile.IsDamage(err):
			continue // it shows where its rows are read
		case err != nil:
			return false, err
		case months.FellBack(highest, local):
			return true, nil
		}
		highest = max(highest, local)
	}
	return false, nil
}

// readStretches reads the timestamps of all rows that are new to the stretches.
func (c *content) readStretches(ctx context.Context) error {
	next := c.info.Rows.First
	if n := len(c.info.Stretches); n > 0 {
		next = c.info.Stretches[n-1].Rows.Last + 1
	}
	for next <= c.info.Rows.Last {
		n, err := c.readSomeStretches(ctx, &next)
		if err != nil {
			return fmt.Errorf("reading the order of rows: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
	return nil
}

func (c *content) readSomeStretches(ctx context.Context, next *int64) (n int, err error) {
	rows, err := c.handle.watch.QueryContext(ctx,
		"SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?",
		*next, c.info.Rows.Last, maxRows)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	var rowid int64
	var text sql.RawBytes
	for ; rows.Next(); n++ {
		if err := rows.Scan(&rowid, &text); err != nil {
			return n, err
		}
		if rowid < *next {
			return n, sqlitefile.ErrCircle
		}
		c.info.Stretches = months.Order(c.info.Stretches, rowid, localOf(text))
		*next = rowid + 1
	}
	return n, rows.Err()
}

// Queries for timestamps from a rowid on.
const (
	upwards = "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state " +
		"WHERE rowid >= ? AND timestamp IS NOT NULL ORDER BY rowid" // #nosec G101 -- no credentials
	downwards = "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state " +
		"WHERE rowid <= ? AND timestamp IS NOT NULL ORDER BY rowid DESC"
)

// local returns the first readable timestamp of such a query, None if there is none.
func (c *content) local(ctx context.Context, query string, rowid int64) (months.Local, error) {
	return found(c.handle.watch.QueryContext(ctx, query, rowid))
}

func found(rows *sql.Rows, err error) (months.Local, error) {
	if err != nil {
		return months.None, err
	}
	_, local, err := readable(rows)
	return local, err
}

// readable returns the first row with a readable timestamp and closes rows.
func readable(rows *sql.Rows) (rowid int64, local months.Local, err error) {
	defer rows.Close()
	var found sql.RawBytes
	var before [2]int64 // the rowids of the two rows before
	for n := 0; rows.Next(); n++ {
		if err := rows.Scan(&rowid, &found); err != nil {
			return 0, months.None, err
		}
		if local := localOf(found); local != months.None {
			return rowid, local, nil
		}
		if n > 0 && rowid == before[1] || n > 1 && (rowid > before[1]) != (before[1] > before[0]) {
			return 0, months.None, sqlitefile.ErrCircle
		}
		before = [2]int64{before[1], rowid}
	}
	return 0, months.None, rows.Err()
}
