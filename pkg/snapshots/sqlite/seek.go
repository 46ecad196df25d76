package sqlite

import (
	"context"
	"database/sql"

	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

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
	found, err := c.seek(ctx, from, to)
	if err != nil {
		return months.Nothing, c.explain(err)
	}
	return found, nil
}

func (c *content) seek(ctx context.Context, from, to months.Local) (months.Range, error) {
	statement, err := c.handle.DB.PrepareContext(ctx, c.table.SQL("SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state "+
		"WHERE rowid BETWEEN ? AND ? AND timestamp IS NOT NULL ORDER BY rowid"))
	if err != nil {
		return months.Nothing, err
	}
	defer statement.Close()
	s := search{c, statement}
	first, _, err := s.find(ctx, from)
	if err != nil {
		return months.Nothing, err
	}
	end, unknown, err := s.find(ctx, to)
	return months.Range{First: first, Last: max(end, unknown) - 1}, err
}

// search reads single rows of a file. Because the times of rows on damaged pages are unknown, they count as inside the
// searched range, so that a reader of the range meets the damage.
type search struct {
	*content
	statement *sql.Stmt
}

// find returns the smallest rowid whose timestamp is not before the given one, Last + 1 if there is none. If rows from
// there on cannot be read, unknown is the first readable one after them.
func (s *search) find(ctx context.Context, local months.Local) (rowid, unknown int64, err error) {
	rows := s.info.Rows
	if s.info.Last < local {
		return rows.Last + 1, 0, nil
	}
	damaged := map[int64]int64{}
	low, high := rows.First, rows.Last+1 // low <= answer <= high
	for low < high {
		middle := low + (high-low)/2
		at, found, err := s.at(ctx, middle, high-1)
		if err != nil && sqlitefile.IsDamage(err) {
			if at, found, err = s.past(ctx, middle, high); err == nil && found >= local {
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
func (s *search) past(ctx context.Context, damaged, end int64) (rowid int64, local months.Local, err error) {
	for step := int64(1); damaged+step < end; step *= 2 {
		rowid, local, err = s.at(ctx, damaged+step, end-1)
		if err == nil && local != months.None || err != nil && !sqlitefile.IsDamage(err) {
			return rowid, local, err
		}
	}
	return end, s.info.Last, nil
}

// at returns the first row from a rowid up to another one with a readable timestamp; None if there is none.
func (s *search) at(ctx context.Context, from, to int64) (rowid int64, local months.Local, err error) {
	return s.first(s.statement.QueryContext(ctx, from, to))
}
