package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/snapshots/months"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Seek implements months.Content by binary search: rows are appended in the order of time.
func (c *content) Seek(ctx context.Context, from, to months.Local) (months.Range, error) {
	if c.info.Unordered {
		return months.Find(c.info.Stretches, from, to), nil
	}
	if c.info.First == months.None || c.info.Last < from || c.info.First >= to {
		return months.Nothing, nil
	}
	found, ordered, err := c.seek(ctx, from, to)
	if err != nil {
		return months.Nothing, c.explain(err)
	}
	if !ordered {
		return months.Nothing, c.disordered()
	}
	return found, nil
}

func (c *content) seek(ctx context.Context, from, to months.Local) (found months.Range, ordered bool, err error) {
	statement, err := c.handle.db.PrepareContext(ctx, "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state "+
		"WHERE rowid BETWEEN ? AND ? AND timestamp IS NOT NULL ORDER BY rowid")
	if err != nil {
		return months.Nothing, false, err
	}
	defer statement.Close()
	s := search{statement, &c.info}
	first, _, err := s.find(ctx, from)
	if err != nil {
		return months.Nothing, false, err
	}
	end, unknown, err := s.find(ctx, to)
	if err != nil {
		return months.Nothing, false, err
	}
	if ordered, err = s.before(ctx, first, from); err == nil && ordered {
		ordered, err = s.behind(ctx, end, to)
	}
	return months.Range{First: first, Last: max(end, unknown) - 1}, ordered, err
}

// search looks at single rows of a file. Rows on damaged pages cannot be told apart: they are taken to be inside of
// what is looked for, so that who needs them comes upon the damage.
type search struct {
	statement *sql.Stmt
	info      *months.Info
}

// find returns the smallest rowid whose timestamp is not before the given one, Last + 1 if there is none. If rows from
// there on cannot be read, unknown is the first one behind that can be.
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

// past returns the first row behind a damaged place that can be found, in steps that grow, and its timestamp; what is
// behind the end of the search is later than anything.
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
	rows, err := s.statement.QueryContext(ctx, from, to)
	if err != nil {
		return 0, months.None, err
	}
	return readable(rows)
}

// before looks at some rows ahead of a boundary, ever farther away: a binary search that fell for a few rows at the
// wrong place ends among them. Repeated hours and late snapshots may be on the wrong side.
func (s *search) before(ctx context.Context, boundary int64, local months.Local) (ordered bool, err error) {
	for step := int64(1); boundary-step >= s.info.Rows.First; step += (step + 1) / 2 {
		_, found, err := s.at(ctx, boundary-step, boundary-1)
		if err != nil && !sqlitefile.IsDamage(err) || err == nil && months.FellBack(found, local) {
			return false, err
		}
	}
	return true, nil
}

// behind does the same for the rows behind a boundary.
func (s *search) behind(ctx context.Context, boundary int64, local months.Local) (ordered bool, err error) {
	for step := int64(0); boundary+step <= s.info.Rows.Last; step += step/2 + 1 {
		_, found, err := s.at(ctx, boundary+step, s.info.Rows.Last)
		if err != nil && !sqlitefile.IsDamage(err) || err == nil && months.FellBack(local, found) {
			return false, err
		}
	}
	return true, nil
}

// hash returns a hash of each row's columns and timestamp; 0 where there is no such row.
func (c *content) hash(ctx context.Context, rowids []int64) ([]uint64, error) {
	list, err := json.Marshal(rowids)
	if err != nil {
		return nil, err
	}
	rows, err := c.handle.db.QueryContext(ctx,
		"SELECT "+c.schema.line()+" FROM gpu_state WHERE rowid IN (SELECT value FROM json_each(?))", string(list))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	hashes := make([]uint64, len(rowids))
	var line sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		rowid, texts := cutRowid(line)
		for i, wanted := range rowids {
			if wanted == rowid {
				hashes[i] = max(xxhash.Sum64(texts), 1)
			}
		}
	}
	return hashes, rows.Err()
}

// Identity implements months.Content.
func (c *content) Identity(ctx context.Context, r months.Range) (string, error) {
	return months.RowsIdentity(ctx, c, r)
}
