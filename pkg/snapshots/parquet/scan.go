package parquet

import (
	"context"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

// scanRows bounds the rows whose columns are held at once: a row group of polars'.
const scanRows = GroupRows

// scan gives rows to a visitor.
type scan struct {
	content    *content
	reader     *Reader
	visitor    months.Visitor
	wantsUsage bool
	usage      *Column
	usages     []float64
	columns    [snapshots.Columns]Texts
	failed     error // the visitor's
	prefetch   prefetcher
}

// rows gives the rows from first to end of a row group.
func (s *scan) rows(ctx context.Context, group int, first, end int64) error {
	times, err := s.content.times(ctx, group)
	if err != nil {
		return err
	}
	runs := times.runs
	var decoded *distinct
	for i := range runs {
		from, to := max(runs[i].number, first), min(s.content.end(group, i), end)
		if from >= to {
			continue
		}
		if sampler, ok := s.visitor.(months.Sampler); ok && runs[i].local == months.None {
			sampler.Unreadable(times.sample)
		}
		wanted, err := s.visitor.Run(from, runs[i].local)
		if err != nil {
			s.failed = err
			return err
		}
		if !wanted {
			continue
		}
		if decoded == nil {
			begin := s.content.begins[group]
			if err := s.decode(ctx, group, int(from-begin), int(end-begin)); err != nil {
				return err
			}
			first, decoded = from, newDistinct(&s.columns)
		}
		if err := s.give(decoded, int(from-first), int(to-first)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the columns of rows of a row group.
func (s *scan) decode(ctx context.Context, group, from, to int) error {
	if s.prefetch != nil {
		if err := s.prefetch.Prefetch(s.content.file.bytes(group)); err != nil {
			return err
		}
	}
	for i, name := range snapshots.ColumnNames {
		if err := s.reader.Texts(ctx, group, s.reader.file.Column(name), from, to, &s.columns[i]); err != nil {
			return err
		}
	}
	if !s.wantsUsage {
		return nil
	}
	if cap(s.usages) < to-from {
		s.usages = make([]float64, to-from)
	}
	s.usages = s.usages[:to-from]
	return s.reader.Floats(ctx, group, s.usage, from, to, s.usages)
}

// give gives decoded rows to the visitor.
func (s *scan) give(decoded *distinct, from, to int) error {
	usage := math.NaN()
	for i := from; i < to; i++ {
		if s.wantsUsage {
			usage = s.usages[i]
		}
		if err := s.visitor.Row(decoded.row(i), usage); err != nil {
			s.failed = err
			return err
		}
	}
	return nil
}

// distinct makes each row that occurs in decoded columns once.
type distinct struct {
	columns *[snapshots.Columns]Texts
	rows    map[[snapshots.Columns]uint32]snapshots.Row // by the codes of its columns
}

func newDistinct(columns *[snapshots.Columns]Texts) *distinct {
	return &distinct{columns, map[[snapshots.Columns]uint32]snapshots.Row{}}
}

// row returns the row at a place of the columns.
func (d *distinct) row(i int) snapshots.Row {
	var codes [snapshots.Columns]uint32
	for c := range codes {
		codes[c] = d.columns[c].Codes[i]
	}
	row, known := d.rows[codes]
	if !known {
		var texts snapshots.Texts
		for c, code := range codes {
			texts[c] = d.columns[c].Values[code]
		}
		row = snapshots.NewRow(texts)
		d.rows[codes] = row
	}
	return row
}

// hash continues a hash with rows of a row group: their timestamps, usage and the columns of a snapshots.Row. How they
// are stored does not matter. It begins at 0.
func (r *Reader) hash(ctx context.Context, group, from, to int, hash uint64) (uint64, error) {
	const factor = 0x9e3779b97f4a7c15 // odd: no two hashes become one
	var texts Texts
	for ; from < to; from += scanRows {
		end := min(from+scanRows, to)
		rows, usages := make([]uint64, end-from), make([]float64, end-from)
		if err := r.Floats(ctx, group, r.file.Column(snapshots.UsageColumn), from, end, usages); err != nil {
			return 0, err
		}
		for i, usage := range usages {
			rows[i] = math.Float64bits(usage) * factor
		}
		for _, name := range append([]string{snapshots.TimestampColumn}, snapshots.ColumnNames[:]...) {
			if err := r.Texts(ctx, group, r.file.Column(name), from, end, &texts); err != nil {
				return 0, err
			}
			values := make([]uint64, len(texts.Values))
			for i, text := range texts.Values {
				values[i] = xxhash.Sum64String(text)
			}
			for i, code := range texts.Codes {
				rows[i] = (rows[i] ^ values[code]) * factor
			}
		}
		for _, h := range rows {
			hash = (hash ^ h) * factor
		}
	}
	return hash, nil
}
