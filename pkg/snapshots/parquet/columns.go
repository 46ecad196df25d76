package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// unreadable is a form of Parquet that no known collector writes, and that is not read.
func unreadable(format string, args ...any) error {
	return fmt.Errorf(format+": rewrite it with zstd compression and the default encodings of polars or pyarrow", args...)
}

// Texts is a column of a range of rows: row i holds Values[Codes[i]]. Code 0 is NULL; other codes can have equal
// values.
type Texts struct {
	Codes  []uint32
	Values []string
}

// Reader reads columns of a file's row groups. It is for one goroutine; what it returns is valid until its next read of
// the same column.
type Reader struct {
	file    *File
	in      io.ReaderAt
	inflate *inflater
	pages   pages
	indices []int32
}

// NewReader returns a reader of the file, whose bytes are in. It must be closed.
func (f *File) NewReader(in io.ReaderAt) (*Reader, error) {
	inflate, err := newInflater()
	if err != nil {
		return nil, err
	}
	return &Reader{file: f, in: in, inflate: inflate}, nil
}

// Close frees what the reader holds.
func (r *Reader) Close() { r.inflate.close() }

// open turns to a column of a row group.
func (r *Reader) open(group int, c *Column) *pages {
	g := &r.file.Groups[group]
	p := &r.pages
	p.r, p.rows, p.optional, p.chunk, p.inflate = r.in, g.Rows, c.optional, g.chunks[c.leaf], r.inflate
	p.window, p.windowAt = p.window[:0], 0
	return p
}

// Texts reads the rows [from, to) of a column of a row group into t: numbers as decimals, times as the collector's
// clock showed them (YYYY-MM-DD HH:MM:SS.ffffff). A column that the file does not have is NULL everywhere.
func (r *Reader) Texts(ctx context.Context, group int, c *Column, from, to int, t *Texts) error {
	if cap(t.Codes) < to-from {
		t.Codes = make([]uint32, to-from)
	}
	t.Codes, t.Values = t.Codes[:to-from], append(t.Values[:0], "")
	if c == nil {
		clear(t.Codes)
		return nil
	}
	d := decoder{column: c, texts: t, from: from, to: to, reader: r}
	err := r.open(group, c).walk(ctx, from, to, d.dictionary, d.page)
	if err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	return nil
}

// decoder decodes pages of a column into texts.
type decoder struct {
	column   *Column
	texts    *Texts
	from, to int
	reader   *Reader

	entries int               // of the dictionary
	known   map[string]uint32 // codes of values that are in no dictionary
	last    string
	code    uint32
}

// dictionary takes over the values that pages refer to.
func (d *decoder) dictionary(values int, data []byte) error {
	if d.entries > 0 {
		return damaged("a second dictionary")
	}
	d.entries = values
	n := 0
	return d.plain(values, data, func(text []byte) {
		d.texts.Values = append(d.texts.Values, string(text))
		n++
	})
}

// isIndexed reports whether a page holds indices into the dictionary.
func isIndexed(p page) bool {
	return p.encoding == format.RLEDictionary ||
		p.encoding == format.PlainDictionary //nolint:staticcheck // older writers still use it
}

// page decodes the part of a page that lies within the range.
func (d *decoder) page(p page) error {
	switch {
	case p.values == 0:
		d.null(p)
		return nil
	case isIndexed(p):
		return d.indexed(p)
	case p.encoding == format.Plain:
		return d.listed(p)
	}
	return unreadable("its values are encoded as %s", p.encoding)
}

// null fills in a page without a value.
func (d *decoder) null(p page) {
	clear(d.texts.Codes[max(p.first-d.from, 0) : min(p.first+p.rows, d.to)-d.from])
}

// indexed decodes a page whose values are numbers of dictionary entries.
func (d *decoder) indexed(p page) error {
	if len(p.data) == 0 || p.data[0] > 32 {
		return damaged("a page of indices without a bit width")
	}
	if err := checkRuns(p.data[1:], int(p.data[0]), p.values); err != nil {
		return err
	}
	indices, err := new(rle.DictionaryEncoding).DecodeInt32(d.reader.indices, p.data)
	if err != nil || len(indices) < p.values {
		return damaged("%d indices, %d expected", len(indices), p.values)
	}
	d.reader.indices = indices
	indices = indices[:p.values]
	highest := uint32(0)
	for _, i := range indices {
		highest = max(highest, uint32(i))
	}
	if highest >= uint32(d.entries) {
		return damaged("index %d in a dictionary of %d", highest, d.entries)
	}
	first, last := max(d.from-p.first, 0), min(d.to-p.first, p.rows) // rows of the page
	codes := d.texts.Codes[p.first+first-d.from : p.first+last-d.from]
	if p.present == nil {
		for i, index := range indices[first:last][:len(codes)] { // of one length, which the compiler sees so
			codes[i] = uint32(index) + 1
		}
		return nil
	}
	next := bytes.Count(p.present[:first], []byte{1})
	for i, b := range p.present[first:last] { // without a branch, which would be mispredicted often
		codes[i] = uint32(b) * (uint32(indices[min(next, p.values-1)]) + 1)
		next += int(b)
	}
	return nil
}

// listed decodes a page that holds its values themselves.
func (d *decoder) listed(p page) error {
	row := p.first
	i := 0
	skip := func() {
		for ; p.present != nil && i < p.rows && p.present[i] == 0; i++ {
			if row = p.first + i; row >= d.from && row < d.to {
				d.texts.Codes[row-d.from] = 0
			}
		}
	}
	err := d.plain(p.values, p.data, func(text []byte) {
		skip()
		if row = p.first + i; row >= d.from && row < d.to {
			d.texts.Codes[row-d.from] = d.intern(text)
		}
		i++
	})
	skip()
	return err
}

// intern returns the code of a value.
func (d *decoder) intern(text []byte) uint32 {
	if d.code > 0 && d.last == string(text) {
		return d.code
	}
	if d.known == nil {
		d.known = map[string]uint32{}
	}
	code, ok := d.known[string(text)]
	if !ok {
		code = uint32(len(d.texts.Values))
		d.texts.Values = append(d.texts.Values, string(text))
		d.known[string(text)] = code
	}
	d.code, d.last = code, d.texts.Values[code]
	return code
}

// plain gives the texts of values that stand one after the other.
func (d *decoder) plain(values int, data []byte, give func([]byte)) error {
	if d.column.Kind == format.ByteArray {
		for range values {
			if len(data) < 4 || binary.LittleEndian.Uint32(data) > uint32(len(data)-4) {
				return damaged("a text beyond the end of its page")
			}
			n := 4 + int(binary.LittleEndian.Uint32(data))
			give(data[4:n])
			data = data[n:]
		}
		return nil
	}
	size := 8
	switch d.column.Kind {
	case format.Int32, format.Float:
		size = 4
	case format.Int64, format.Double:
	default:
		return unreadable("its values are of the type %s", d.column.Kind)
	}
	if values > len(data)/size {
		return damaged("%d numbers in %d bytes", values, len(data))
	}
	var text [40]byte
	for i := range values {
		give(d.column.number(text[:0], data[i*size:]))
	}
	return nil
}

// number appends a number or a time as text.
func (c *Column) number(text, data []byte) []byte {
	switch c.Kind {
	case format.Int32:
		return strconv.AppendInt(text, int64(int32(binary.LittleEndian.Uint32(data))), 10)
	case format.Float:
		return strconv.AppendFloat(text, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))), 'f', -1, 32)
	case format.Double:
		return strconv.AppendFloat(text, math.Float64frombits(binary.LittleEndian.Uint64(data)), 'f', -1, 64)
	}
	value := int64(binary.LittleEndian.Uint64(data))
	if c.unit <= noTime {
		return strconv.AppendInt(text, value, 10)
	}
	return c.unit.time(value).AppendFormat(text, momentFormat)
}

// time returns what the collector's clock showed, as if it were UTC.
func (u timeUnit) time(value int64) time.Time {
	perSecond := int64(time.Second) / int64(u)
	seconds, rest := value/perSecond, value%perSecond
	return time.Unix(seconds, rest*int64(u)).UTC()
}

// Floats reads the rows [from, to) of a column of a row group into values; NULL and what is no number are NaN.
func (r *Reader) Floats(ctx context.Context, group int, c *Column, from, to int, values []float64) error {
	if c != nil && c.Kind == format.Double && c.unit == noTime {
		return r.doubles(ctx, group, c, from, to, values)
	}
	var texts Texts
	if err := r.Texts(ctx, group, c, from, to, &texts); err != nil {
		return err
	}
	numbers := make([]float64, len(texts.Values))
	for i, text := range texts.Values {
		var err error
		if numbers[i], err = strconv.ParseFloat(text, 64); err != nil {
			numbers[i] = math.NaN()
		}
	}
	for i, code := range texts.Codes {
		values[i] = numbers[code]
	}
	return nil
}

// doubles reads a column of doubles, most of which are distinct.
func (r *Reader) doubles(ctx context.Context, group int, c *Column, from, to int, values []float64) error {
	var dictionary []float64
	take := func(n int, data []byte) error {
		if n > len(data)/8 {
			return damaged("%d numbers in %d bytes", n, len(data))
		}
		dictionary = make([]float64, n)
		for i := range dictionary {
			dictionary[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		return nil
	}
	var indexed Texts
	err := r.open(group, c).walk(ctx, from, to, take, func(p page) error {
		if p.encoding != format.Plain && p.values > 0 {
			return r.indexedDoubles(p, c, from, to, dictionary, &indexed, values)
		}
		if p.values > len(p.data)/8 {
			return damaged("%d numbers in %d bytes", p.values, len(p.data))
		}
		next := 0
		for i := range p.rows {
			value := math.NaN()
			if p.present == nil && p.values > 0 || p.present != nil && p.present[i] != 0 {
				value = math.Float64frombits(binary.LittleEndian.Uint64(p.data[8*next:]))
				next++
			}
			if row := p.first + i; row >= from && row < to {
				values[row-from] = value
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	return nil
}

// indexedDoubles decodes a page of dictionary indices.
func (r *Reader) indexedDoubles(
	p page, c *Column, from, to int, dictionary []float64, t *Texts, values []float64,
) error {
	if t.Codes == nil {
		t.Codes = make([]uint32, to-from)
	}
	d := decoder{column: c, texts: t, from: from, to: to, reader: r, entries: len(dictionary)}
	if !isIndexed(p) {
		return unreadable("its values are encoded as %s", p.encoding)
	}
	if err := d.indexed(p); err != nil {
		return err
	}
	for row := max(from, p.first); row < min(to, p.first+p.rows); row++ {
		if values[row-from] = math.NaN(); t.Codes[row-from] > 0 {
			values[row-from] = dictionary[t.Codes[row-from]-1]
		}
	}
	return nil
}
