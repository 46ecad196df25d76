package parquet

import (
	"context"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// scan gives rows to a visitor.
type scan struct {
	content *content
	file    *File
	visitor months.Visitor
	failed  error         // the visitor's
	row     snapshots.Row // a buffer
}

// scanned are the columns that are read of a row: those of a snapshots.Row, and the usage.
var scanned = append(slices.Clone(snapshots.ColumnNames[:]), snapshots.UsageColumn)

func (c *content) Scan(ctx context.Context, r months.Range, v months.Visitor) error {
	if r.Empty() {
		return nil
	}
	f, err := c.open(ctx)
	if err != nil {
		return c.failure(err)
	}
	defer f.Close()
	s := scan{content: c, file: f, visitor: v}
	for g := c.group(r.First); g < len(c.groups) && c.begins[g] <= r.Last; g++ {
		end := min(r.Last+1, c.begins[g+1])
		for first := max(r.First, c.begins[g]); first < end; first += batchRows {
			err := s.rows(ctx, g, first, min(first+batchRows, end))
			switch {
			case s.failed != nil:
				return s.failed
			case err != nil:
				return c.failure(fmt.Errorf("row group %d: %w", g, err))
			}
		}
	}
	return nil
}

// rows gives the rows from first to end of a row group.
func (s *scan) rows(ctx context.Context, group int, first, end int64) error {
	times, err := s.content.times(ctx, group)
	if err != nil {
		return err
	}
	var texts []Texts // nil until a run is wanted
	begin := s.content.begins[group]
	for i, run := range times.runs {
		from, to := max(run.number, first), min(s.content.end(group, i), end)
		if from >= to {
			continue
		}
		var wanted bool
		if wanted, s.failed = s.visitor.Run(from, run.local, times.sample); s.failed != nil || !wanted {
			if s.failed != nil {
				return s.failed
			}
			continue
		}
		if texts == nil {
			if texts, err = s.file.columns(ctx, group, int(first-begin), int(end-begin), scanned); err != nil {
				return err
			}
		}
		for n := int(from - first); n < int(to-first); n++ {
			usage := snapshots.Number(texts[snapshots.Columns].At(n))
			if s.failed = s.visitor.Row(s.rowOf(texts, n), usage); s.failed != nil {
				return s.failed
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// rowOf makes a row of its columns, valid until the next one.
func (s *scan) rowOf(texts []Texts, n int) snapshots.Row {
	s.row = s.row[:0]
	for i := range snapshots.Columns {
		s.row = snapshots.AppendText(s.row, texts[i].At(n))
	}
	return s.row
}

// hash is a hash of rows of a row group: of their timestamps, usage and the columns of a snapshots.Row, however they
// are stored.
func (f *File) hash(ctx context.Context, group, from, to int) (uint64, error) {
	names := append([]string{snapshots.UsageColumn, snapshots.TimestampColumn}, snapshots.ColumnNames[:]...)
	digest := xxhash.New()
	err := f.batches(ctx, group, from, to, names, func(_, rows int, texts []Texts) error {
		var row snapshots.Row
		for n := range rows {
			row = row[:0]
			for i := range texts {
				row = snapshots.AppendText(row, texts[i].At(n))
			}
			_, _ = digest.Write(row) // never fails
		}
		return nil
	})
	return digest.Sum64(), err
}
