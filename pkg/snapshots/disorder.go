package snapshots

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/chtc/gpureports/pkg/localtime"
)

// A file out of the order of time is found out in three ways: by a sample of its rows, by a search whose neighbours
// contradict it, and by a scan that comes upon a step back. From then on its stretches say where a range of time lies.

// stretch is a run of rows in the order of time, within one hour.
type stretch struct {
	first, last string // texts
	rows        Rowids
}

// disorderHours is how far a text may fall behind: a repeated hour, or a late snapshot.
const disorderHours = 1

// longestMonth is how far the ends of an ordered file lie apart at most. Where a clock ran years ahead for a moment,
// no day between is worth a look.
const longestMonth = 40 * 24

// unreadable tells texts that are no timestamp; they stand for no time, and say nothing about the order.
func unreadable(text []byte) bool {
	_, err := localtime.UTC.NewResolver().Read(text)
	return err != nil
}

// addHours moves a readable text.
func addHours(text string, hours int) string {
	t, err := time.Parse(time.DateTime, text[:10]+" "+text[11:len(time.DateTime)])
	if err != nil {
		return text
	}
	return t.Add(time.Duration(hours) * time.Hour).Format(time.DateTime)
}

// fellBack tells whether a readable text stands too far behind another one to be in the order of time.
func fellBack(before, text string) bool {
	return before != "" && text < before && addHours(text, disorderHours) < before
}

// Disordered tells whether the file has turned out to be out of the order of time. Its next State is Unordered.
func (f *File) Disordered() bool { return f.disordered.Load() }

// Texts gives the first and the last timestamp of each part of the file: of the whole file when it is in the order of time.
func (s *State) Texts() iter.Seq2[string, string] {
	return func(yield func(first, last string) bool) {
		if !s.Unordered {
			if s.LastText != "" {
				yield(s.FirstText, s.LastText)
			}
			return
		}
		for i := range s.stretches {
			if s.stretches[i].first != "" && !yield(s.stretches[i].first, s.stretches[i].last) {
				return
			}
		}
	}
}

// Find returns the rowids from the first to the last row with from <= timestamp < to of a file that is Unordered.
func (s *State) Find(from, to string) Rowids {
	found := Rowids{1, 0}
	for i := range s.stretches {
		if p := &s.stretches[i]; p.last >= from && p.first < to {
			if found.Empty() {
				found.First = p.rows.First
			}
			found.Last = p.rows.Last
		}
	}
	return found
}

// unordered samples the file: a text more than a few hours earlier than one before it was not appended in time order.
func (f *File) unordered(ctx context.Context, s *State) (bool, error) {
	const probes = 64
	switch {
	case f.disordered.Load(), s.LastText != "" && (fellBack(s.FirstText, s.LastText) || addHours(s.FirstText, longestMonth) < s.LastText):
		return true, nil
	case f.checked && f.state.First == s.First && s.Last >= f.state.Last: // it was not, and only grew
		text, err := f.text(ctx, upwards, f.state.Last+1)
		return text != "" && fellBack(f.state.LastText, text), err
	}
	highest := ""
	for i := int64(0); i <= probes; i++ {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		text, err := f.text(ctx, upwards, s.First+(s.Last-s.First)/probes*i)
		if err != nil {
			return false, err
		}
		if text != "" && fellBack(highest, text) {
			return true, nil
		}
		highest = max(highest, text)
	}
	return false, nil
}

// readStretches reads the timestamps of all rows that are new to s.stretches.
func (f *File) readStretches(ctx context.Context, s *State) error {
	next := s.First
	if n := len(s.stretches); n > 0 {
		next = s.stretches[n-1].rows.Last + 1
	}
	for next <= s.Last {
		n, err := f.readSomeStretches(ctx, s, &next)
		if err != nil {
			return fmt.Errorf("reading the order of rows: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
	return nil
}

func (f *File) readSomeStretches(ctx context.Context, s *State, next *int64) (n int, err error) {
	rows, err := f.watch.QueryContext(ctx, "SELECT rowid, CAST(timestamp AS TEXT) FROM gpu_state WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?", *next, s.Last, maxRows)
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
			return n, errCircle
		}
		s.stretch(rowid, text)
		*next = rowid + 1
	}
	return n, rows.Err()
}

// stretch adds a row to the last stretch, or begins another one.
func (s *State) stretch(rowid int64, text []byte) {
	const hour = len("2006-01-02 15")
	var p *stretch
	if n := len(s.stretches); n > 0 {
		p = &s.stretches[n-1]
		if p.last == string(text) {
			p.rows.Last = rowid
			return
		}
	}
	switch bad := unreadable(text); {
	case p == nil:
		p = &stretch{rows: Rowids{rowid, rowid}}
		if !bad {
			p.first, p.last = string(text), string(text)
		}
		s.stretches = append(s.stretches, *p)
	case bad:
		p.rows.Last = rowid
	case p.last != "" && (string(text) < p.last || string(text[:hour]) != p.first[:hour]):
		s.stretches = append(s.stretches, stretch{string(text), string(text), Rowids{rowid, rowid}})
	default:
		if p.first == "" {
			p.first = string(text)
		}
		p.last, p.rows.Last = string(text), rowid
	}
}
