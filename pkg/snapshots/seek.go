package snapshots

import (
	"context"
	"database/sql"
	"errors"
)

// Rowids is a range of rowids, both ends included; First > Last is empty.
type Rowids struct{ First, Last int64 }

// Empty tells whether the range holds no rowid.
func (r Rowids) Empty() bool { return r.First > r.Last }

// Seek returns the rowids of the rows with from <= timestamp < to, by text, found by binary search: rows are appended in the
// order of time. Of a file that is not in this order it returns all of them.
func (f *File) Seek(ctx context.Context, s State, from, to string) (Rowids, error) {
	if s.Unordered || s.First > s.Last {
		return Rowids{s.First, s.Last}, nil
	}
	if s.LastText < from || s.FirstText >= to {
		return Rowids{1, 0}, nil
	}
	first, err := f.search(ctx, s, from)
	if err != nil {
		return Rowids{}, f.explain(err)
	}
	end, err := f.search(ctx, s, to)
	if err != nil {
		return Rowids{}, f.explain(err)
	}
	return Rowids{first, end - 1}, nil
}

// search returns the smallest rowid whose text is not before the given one, Last + 1 when there is none.
func (f *File) search(ctx context.Context, s State, text string) (int64, error) {
	if s.LastText < text {
		return s.Last + 1, nil
	}
	statement, err := f.db.PrepareContext(ctx, "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state WHERE rowid >= ? AND timestamp IS NOT NULL ORDER BY rowid LIMIT 1")
	if err != nil {
		return 0, err
	}
	defer statement.Close()
	low, high := s.First, s.Last+1 // low <= answer <= high
	for low < high {
		middle := low + (high-low)/2
		var rowid int64
		var found string
		switch err := statement.QueryRowContext(ctx, middle).Scan(&rowid, &found); {
		case errors.Is(err, sql.ErrNoRows):
			high = middle
		case err != nil:
			return 0, err
		case found >= text:
			high = middle
		default:
			low = rowid + 1
		}
	}
	return low, nil
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
	hashes := make([]uint64, len(rowids))
	statement, err := f.db.PrepareContext(ctx, "SELECT "+s.schema.selection()+" FROM gpu_state WHERE rowid = ?")
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	for i, rowid := range rowids {
		if hashes[i], err = hashRow(ctx, statement, rowid); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

func hashRow(ctx context.Context, statement *sql.Stmt, rowid int64) (hash uint64, err error) {
	rows, err := statement.QueryContext(ctx, rowid)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if rows.Next() {
		r := newReader()
		if err := rows.Scan(r.targets...); err != nil {
			return 0, err
		}
		hash = r.hash()
	}
	return hash, rows.Err()
}
