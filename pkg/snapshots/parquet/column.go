package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// unreadable returns the error of a form of Parquet that is not supported.
func unreadable(format string, args ...any) error {
	return fmt.Errorf(format+": rewrite it with zstd compression and the default encodings of polars or pyarrow", args...)
}

// Texts is a column of a range of rows: row i holds Values[Codes[i]]. Code 0 is NULL; others can have equal values.
type Texts struct {
	Codes  []uint32
	Values []string
}

// At returns the text of a row, "" for NULL.
func (t *Texts) At(row int) string { return t.Values[t.Codes[row]] }

// columns reads the rows [from, to) of some columns of a row group: numbers as decimals, times as the collector's clock
// showed them (YYYY-MM-DD HH:MM:SS.ffffff), those of UTC with +00:00 after them, booleans as 1 and 0. A column that the
// file does not have is NULL everywhere.
func (f *File) columns(ctx context.Context, group, from, to int, names []string) ([]Texts, error) {
	columns := make([]*Column, len(names))
	for i, name := range names {
		columns[i] = f.Column(name)
	}
	read, err := f.piece(group, columns)
	if err != nil {
		return nil, err
	}
	all := make([]Texts, len(names))
	for i, c := range columns {
		all[i] = Texts{Codes: make([]uint32, to-from), Values: []string{""}}
		if c == nil || from == to {
			continue
		}
		d := decoder{column: c, texts: &all[i]}
		if err := d.chunk(ctx, &f.Groups[group].chunks[c.leaf], read, f.size, from, to); err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return all, nil
}

// batches gives the rows [from, to) of some columns of a row group to visit, in batches as large as row groups are.
func (f *File) batches(ctx context.Context, group, from, to int, names []string,
	visit func(first, rows int, texts []Texts) error) error {
	for first := from; first < to; first += GroupRows {
		end := min(first+GroupRows, to)
		texts, err := f.columns(ctx, group, first, end, names)
		if err != nil {
			return err
		}
		if err := visit(first, end-first, texts); err != nil {
			return err
		}
	}
	return nil
}

// decoder makes texts of the values of a column.
type decoder struct {
	column     *Column
	texts      *Texts
	dictionary uint32 // the code of its first entry; 0 if there is none
}

// chunk reads the rows [from, to) of a chunk.
func (d *decoder) chunk(ctx context.Context, chunk *chunk, read piece, size int64, from, to int) (err error) {
	if err := chunk.check(size); err != nil {
		return err
	}
	// Let the library read the pages with these rows.
	first, end := from, to
	if d.column.list { // pages say how many values they have, not how many rows
		first, end = 0, int(chunk.values)
	}
	data, row, err := pagesOf(chunk, read.data[chunk.at-read.at:chunk.end-read.at], size, first, end)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // the library's decoders trust their input
			err = damaged("%v", p)
		}
	}()
	pages, err := d.column.open(chunk.codec, data)
	if err != nil {
		return err
	}
	defer pages.Close()
	if d.column.list {
		return d.lists(ctx, pages, from, to)
	}
	// Take the part of each page that is asked for.
	for row < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := pages.ReadPage()
		switch {
		case errors.Is(err, encoding.ErrNotSupported):
			return unreadable("%v", err)
		case err != nil:
			return damaged("%v", err)
		}
		begin, end := max(from-row, 0), min(to-row, int(page.NumRows()))
		part := page.Slice(int64(begin), int64(end))
		if _, known := kinds[d.column.Kind]; !known && part.NumNulls() < part.NumRows() {
			err = unreadable("its values are of the type %s", d.column.Kind)
		} else {
			err = d.page(part, d.texts.Codes[row+begin-from:row+end-from])
		}
		row += int(page.NumRows())
		parquet.Release(part)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
	return nil
}

// lists reads the rows [from, to) of lists of texts, from the first page of a chunk onward.
func (d *decoder) lists(ctx context.Context, pages *parquet.FilePages, from, to int) error {
	known := map[string]uint32{"": 0} // the code of each text
	var members []string
	row := -1
	end := func() { // ends a row
		if row >= from {
			text := strings.Join(members, ",")
			code, is := known[text]
			if !is {
				code = uint32(len(d.texts.Values))
				known[text], d.texts.Values = code, append(d.texts.Values, text)
			}
			d.texts.Codes[row-from] = code
		}
		members = members[:0]
	}
	// Read page by page: a list can continue in the next one.
	for row < to {
		page, err := pages.ReadPage()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF) && row == to-1:
			end()
			return nil
		case errors.Is(err, encoding.ErrNotSupported):
			return unreadable("%v", err)
		case err != nil:
			return damaged("%v", err)
		}
		// A value that repeats no other begins the next row.
		values, some := page.Values(), [256]parquet.Value{}
		for n := 1; n > 0 && row < to; {
			n, err = values.ReadValues(some[:])
			if err != nil && !errors.Is(err, io.EOF) {
				return damaged("%v", err)
			}
			for _, v := range some[:n] {
				if v.RepetitionLevel() == 0 {
					if end(); row+1 == to {
						return nil
					}
					row++
				}
				if !v.IsNull() {
					members = append(members, v.String())
				}
			}
		}
		parquet.Release(page)
	}
	return nil
}

// page fills in the codes of a page's rows.
func (d *decoder) page(page parquet.Page, codes []uint32) error {
	dictionary := page.Dictionary()
	if dictionary == nil {
		return d.values(page.Values(), codes)
	}
	if d.dictionary == 0 {
		d.dictionary = uint32(len(d.texts.Values))
		for i := range dictionary.Len() {
			d.texts.Values = append(d.texts.Values, d.column.text(dictionary.Index(int32(i))))
		}
	}
	levels, values := page.DefinitionLevels(), page.Data()
	indexes := values.Int32()
	entries := uint32(dictionary.Len())
	for i := range codes {
		if len(levels) > 0 && levels[i] == 0 {
			continue // NULL
		}
		index := uint32(indexes[0])
		if index >= entries {
			return damaged("index %d in a dictionary of %d", index, entries)
		}
		codes[i], indexes = d.dictionary+index, indexes[1:]
	}
	return nil
}

// values fills in the codes of values without a dictionary, each of which gets the next code.
func (d *decoder) values(values parquet.ValueReader, codes []uint32) error {
	var some [256]parquet.Value
	for len(codes) > 0 {
		n, err := values.ReadValues(some[:min(len(some), len(codes))])
		if n == 0 {
			return damaged("%d values too few: %v", len(codes), err)
		}
		for i, v := range some[:n] {
			if !v.IsNull() {
				codes[i] = uint32(len(d.texts.Values))
				d.texts.Values = append(d.texts.Values, d.column.text(v))
			}
		}
		codes = codes[n:]
	}
	return nil
}

// kinds are the kinds in which values are written again, by the physical types that the columns of a month have.
var kinds = map[format.Type]Kind{
	format.Int32: Integer, format.Int64: Integer, format.Float: Real, format.Double: Real, format.ByteArray: Text,
	format.Boolean: Integer,
}

// text returns the text of a value.
func (c *Column) text(v parquet.Value) string {
	switch {
	case c.Kind == format.Boolean && v.Boolean():
		return "1"
	case c.Kind == format.Boolean:
		return "0"
	case c.Kind == format.Float:
		return strconv.FormatFloat(float64(v.Float()), 'f', -1, 32)
	case c.Kind == format.Double:
		return strconv.FormatFloat(v.Double(), 'f', -1, 64)
	case c.Kind == format.Int64 && c.zoned:
		return c.unit.time(v.Int64()).Format(momentFormat + "+00:00")
	case c.Kind == format.Int64 && c.unit > noTime:
		return c.unit.time(v.Int64()).Format(momentFormat)
	}
	return v.String()
}

// time returns the time that the collector's clock showed, as if it were UTC.
func (u timeUnit) time(value int64) time.Time {
	perSecond := int64(time.Second) / int64(u)
	seconds, rest := value/perSecond, value%perSecond
	return time.Unix(seconds, rest*int64(u)).UTC()
}
