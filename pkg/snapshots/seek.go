package snapshots

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/cespare/xxhash/v2"
)

// Rowids is a range of rowids, both ends included; First > Last is empty.
type Rowids struct{ First, Last int64 }

// Empty tells whether the range holds no rowid.
func (r Rowids) Empty() bool { return r.First > r.Last }

// Seek returns the rowids of the rows with from <= timestamp < to, by text, found by binary search: rows are appended in the
// order of time. Of a file that turns out not to be in this order it returns all of them.
func (f *File) Seek(ctx context.Context, s State, from, to string) (Rowids, error) {
	if s.Unordered {
		return s.Find(from, to), nil
	}
	if s.First > s.Last || s.LastText < from || s.FirstText >= to {
		return Rowids{1, 0}, nil
	}
	found, err := f.seek(ctx, s, from, to)
	if err != nil {
		return Rowids{}, f.explain(err)
	}
	return found, nil
}

func (f *File) seek(ctx context.Context, s State, from, to string) (Rowids, error) {
	statement, err := f.db.PrepareContext(ctx, "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state WHERE rowid BETWEEN ? AND ? AND timestamp IS NOT NULL ORDER BY rowid")
	if err != nil {
		return Rowids{}, err
	}
	defer statement.Close()
	texts := search{statement, s}
	first, err := texts.find(ctx, from)
	if err != nil {
		return Rowids{}, err
	}
	end, err := texts.find(ctx, to)
	if err != nil {
		return Rowids{}, err
	}
	ordered, err := texts.before(ctx, first, from)
	if err == nil && ordered {
		ordered, err = texts.behind(ctx, end, to)
	}
	if err == nil && !ordered {
		f.disordered.Store(true)
		return Rowids{s.First, s.Last}, nil
	}
	return Rowids{first, end - 1}, err
}

// search looks at single rows of a file.
type search struct {
	statement *sql.Stmt
	State
}

// find returns the smallest rowid whose text is not before the given one, Last + 1 when there is none.
func (s *search) find(ctx context.Context, text string) (int64, error) {
	low, high := s.First, s.Last+1 // low <= answer <= high
	for low < high && s.LastText >= text {
		middle := low + (high-low)/2
		rowid, found, err := s.at(ctx, middle, high-1)
		switch {
		case err != nil:
			return 0, err
		case found == "", found >= text:
			high = middle
		default:
			low = rowid + 1
		}
	}
	if s.LastText < text {
		return s.Last + 1, nil
	}
	return low, nil
}

// at returns the first row from a rowid up to another one with a readable timestamp; "" = there is none.
func (s *search) at(ctx context.Context, from, to int64) (rowid int64, text string, err error) {
	rows, err := s.statement.QueryContext(ctx, from, to)
	if err != nil {
		return 0, "", err
	}
	return readable(rows)
}

// Queries for timestamps from a rowid on.
const (
	upwards   = "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state WHERE rowid >= ? AND timestamp IS NOT NULL ORDER BY rowid" // #nosec G101 -- no credentials
	downwards = "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state WHERE rowid <= ? AND timestamp IS NOT NULL ORDER BY rowid DESC"
)

// text returns the first readable timestamp of such a query, "" when there is none.
func (f *File) text(ctx context.Context, query string, rowid int64) (string, error) {
	rows, err := f.watch.QueryContext(ctx, query, rowid)
	if err != nil {
		return "", err
	}
	_, text, err := readable(rows)
	return text, err
}

// readable returns the first row with a readable timestamp and closes rows.
func readable(rows *sql.Rows) (rowid int64, text string, err error) {
	defer rows.Close()
	var found sql.RawBytes
	var before [2]int64 // the rowids of the two rows before
	for n := 0; rows.Next(); n++ {
		if err := rows.Scan(&rowid, &found); err != nil {
			return 0, "", err
		}
		if !unreadable(found) {
			return rowid, string(found), nil
		}
		if n > 0 && rowid == before[1] || n > 1 && (rowid > before[1]) != (before[1] > before[0]) {
			return 0, "", errCircle
		}
		before = [2]int64{before[1], rowid}
	}
	return 0, "", rows.Err()
}

// before looks at some rows ahead of a boundary, ever farther away: a binary search that fell for a few rows at the wrong
// place ends among them. Repeated hours and late snapshots may stand on the wrong side.
func (s *search) before(ctx context.Context, boundary int64, text string) (ordered bool, err error) {
	for step := int64(1); boundary-step >= s.First; step += (step + 1) / 2 {
		if _, found, err := s.at(ctx, boundary-step, boundary-1); err != nil || fellBack(found, text) {
			return false, err
		}
	}
	return true, nil
}

// behind does the same for the rows behind a boundary.
func (s *search) behind(ctx context.Context, boundary int64, text string) (ordered bool, err error) {
	for step := int64(0); boundary+step <= s.Last; step += step/2 + 1 {
		if _, found, err := s.at(ctx, boundary+step, s.Last); err != nil || found != "" && fellBack(text, found) {
			return false, err
		}
	}
	return true, nil
}

// Hash returns a hash of each row's columns and timestamp; 0 where there is no such row.
func (f *File) Hash(ctx context.Context, s State, rowids []int64) ([]uint64, error) {
	hashes, err := f.hash(ctx, s, rowids)
	if err != nil {
		return nil, f.explain(err)
	}
	return hashes, nil
}

func (f *File) hash(ctx context.Context, s State, rowids []int64) ([]uint64, error) {
	list, err := json.Marshal(rowids)
	if err != nil {
		return nil, err
	}
	rows, err := f.db.QueryContext(ctx, "SELECT "+s.schema.line()+" FROM gpu_state WHERE rowid IN (SELECT value FROM json_each(?))", string(list))
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
