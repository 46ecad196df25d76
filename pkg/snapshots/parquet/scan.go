package parquet

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

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
	decoded := false
	var seen distinct
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
		if !decoded {
			begin := s.content.begins[group]
			if err := s.decode(ctx, group, int(from-begin), int(end-begin)); err != nil {
				return err
			}
			first, decoded = from, true
			seen.start(&s.columns)
		}
		if err := s.give(&seen, int(from-first), int(to-first)); err != nil {
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
func (s *scan) give(seen *distinct, from, to int) error {
	usage := math.NaN()
	for i := from; i < to; i++ {
		if s.wantsUsage {
			usage = s.usages[i]
		}
		if err := s.visitor.Row(seen.row(i), usage); err != nil {
			s.failed = err
			return err
		}
	}
	return nil
}

// distinct makes each row that occurs in decoded columns once. A row remembers which one followed it in the last
// snapshot: nine times out of ten it does again.
type distinct struct {
	columns *[snapshots.Columns]Texts
	codes   [snapshots.Columns][]uint32
	numbers map[[snapshots.Columns]uint32]uint32
	keys    [][snapshots.Columns]uint32
	rows    []snapshots.Row
	bytes   []byte // where the next rows are made
	after   []uint32
	last    uint32 // the row before
}

const noRow = math.MaxUint32

// start begins with rows, of which each tenth is another one as a rule.
func (d *distinct) start(columns *[snapshots.Columns]Texts) {
	likely := len(columns[0].Codes) / 10
	*d = distinct{
		columns: columns, numbers: make(map[[snapshots.Columns]uint32]uint32, likely), last: noRow,
		keys: make([][snapshots.Columns]uint32, 0, likely), rows: make([]snapshots.Row, 0, likely),
		after: make([]uint32, 0, likely),
	}
	for i := range columns {
		d.codes[i] = columns[i].Codes
	}
}

// row returns the row at a place of the columns.
func (d *distinct) row(i int) snapshots.Row {
	var key [snapshots.Columns]uint32
	for c := range key {
		key[c] = d.codes[c][i]
	}
	if d.last != noRow {
		if guess := d.after[d.last]; guess != noRow && d.keys[guess] == key {
			d.last = guess
			return d.rows[guess]
		}
	}
	n, known := d.numbers[key]
	if !known {
		n = uint32(len(d.rows))
		d.numbers[key], d.keys = n, append(d.keys, key)
		d.rows, d.after = append(d.rows, d.make(key)), append(d.after, noRow)
	}
	if d.last != noRow {
		d.after[d.last] = n
	}
	d.last = n
	return d.rows[n]
}

// make forms a row of codes.
func (d *distinct) make(key [snapshots.Columns]uint32) snapshots.Row {
	size := 0
	for c, code := range key {
		size += binary.MaxVarintLen32 + len(d.columns[c].Values[code])
	}
	if cap(d.bytes)-len(d.bytes) < size {
		const together = 64 << 10
		d.bytes = make([]byte, 0, max(size, together))
	}
	row := d.bytes[len(d.bytes):]
	for c, code := range key {
		text := d.columns[c].Values[code]
		row = append(binary.AppendUvarint(row, uint64(len(text))), text...)
	}
	d.bytes = d.bytes[:len(d.bytes)+len(row)]
	return slices.Clip(row)
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
