package parquet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

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
	for g := c.groupAt(r.First); g < len(c.groups) && c.begins[g] <= r.Last; g++ {
		end := min(r.Last+1, c.begins[g+1])
		for first := max(r.First, c.begins[g]); first < end; first += GroupRows {
			err := s.rows(ctx, g, first, min(first+GroupRows, end))
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

// hash is a hash of rows: of their timestamps, usage and the columns of a snapshots.Row, however they are stored.
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

// Fingerprint implements months.Content. An object in a bucket to which no rows are appended is identified by its ETag.
// Of a month to which no more are appended, the ETag, ahead of the fingerprint that the rows had while it grew, shows
// edits that leave its footer as it was.
func (c *content) Fingerprint(ctx context.Context, r months.Range) (string, error) {
	if !c.month.grows {
		return fmt.Sprintf("%s:%d-%d", c.version.Tag, r.First, r.Last), nil
	}
	if print, known := c.prints.Load(r); known {
		return print.(string), nil
	}
	var parts []string
	for n := c.groupAt(r.First); n < len(c.groups) && !r.Empty() && c.begins[n] <= r.Last; n++ {
		first, end := max(r.First, c.begins[n])-c.begins[n], min(r.Last+1, c.begins[n+1])-c.begins[n]
		hash, err := c.hash(ctx, n, int(first), int(end))
		if err != nil {
			return "", c.failure(fmt.Errorf("row group %d: %w", n, err))
		}
		parts = append(parts, hash)
	}
	print := strings.Join(parts, "-")
	if c.version.file == nil && !c.newest {
		print = c.version.Tag + " " + print
	}
	c.prints.Store(r, print)
	return print, nil
}

// hash identifies rows of a row group: by the hash of all of it, except of the last one of a month that still grows,
// which appending writes again in other bytes.
func (c *content) hash(ctx context.Context, n, first, end int) (string, error) {
	rewritten, hash := c.newest && n == len(c.groups)-1, c.groups[n].hash.Load()
	if rewritten || hash == 0 {
		f, err := c.open(ctx)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if rewritten {
			hash, err = f.hash(ctx, n, first, end)
			return "rows-" + strconv.FormatUint(hash, 36), err
		}
		if hash, err = c.hashOf(ctx, f, n); err != nil {
			return "", err
		}
		c.groups[n].hash.Store(hash)
	}
	return fmt.Sprintf("%d-%d-%s", first, end, strconv.FormatUint(hash, 36)), nil
}

// hashOf returns a hash of a row group's entry in the footer and of the bytes of its columns, apart from those that
// cannot be read; in a bucket, where reading them takes requests, of the entry alone.
func (c *content) hashOf(ctx context.Context, f *File, group int) (uint64, error) {
	g := &f.Groups[group]
	if c.version.file == nil {
		return g.Key, nil
	}
	digest := xxhash.New()
	_, _ = digest.WriteString(strconv.FormatUint(g.Key, 36)) // never fails
	for _, chunk := range g.chunks {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if chunk.check(f.size) != nil {
			continue
		}
		n, err := io.Copy(digest, io.NewSectionReader(f.in, chunk.at, chunk.end-chunk.at))
		if err != nil {
			return 0, err
		}
		if n < chunk.end-chunk.at {
			return 0, damaged("it ends at byte %d", chunk.at+n)
		}
	}
	return digest.Sum64(), nil
}
