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

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// unreadable returns the error of a form of Parquet that is not supported.
func unreadable(format string, args ...any) error {
	return fmt.Errorf(format+": rewrite it with zstd compression and the default encodings of polars or pyarrow", args...)
}

// Texts is a column of a range of rows: row i holds Values[Codes[i]]. Code 0 is NULL; other codes can have equal
// values.
type Texts struct {
	Codes  []uint32
	Values []string
}

// Reader reads columns of a file's row groups. It is for one goroutine; its results are valid until its next read of
// the same column.
type Reader struct {
	file    *File
	pages   pages
	indices []int32  // buffer of decoded pages
	codes   []uint32 // buffer of decoded pages
}

// NewReader returns a reader of the file, whose bytes are in. It must be closed.
func (f *File) NewReader(in io.ReaderAt) (*Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	return &Reader{file: f, pages: pages{in: in, size: f.size, zstd: decoder}}, err
}

// Close frees the reader's resources.
func (r *Reader) Close() { r.pages.zstd.Close() }

// Texts reads the rows [from, to) of a column of a row group into t: numbers as decimals, times as the collector's
// clock showed them (YYYY-MM-DD HH:MM:SS.ffffff), those of UTC with +00:00 after them, booleans as 1 and 0. A column
// that the file does not have is NULL everywhere.
func (r *Reader) Texts(ctx context.Context, group int, c *Column, from, to int, t *Texts) error {
	t.Values = append(t.Values[:0], "")
	d := decoder{column: c, reader: r, table: &textTable{column: c, texts: t}}
	var err error
	t.Codes, err = d.decode(ctx, group, from, to, t.Codes)
	return err
}

// Floats reads the rows [from, to) of a column of a row group into values. NULL and texts that are not numbers are NaN.
func (r *Reader) Floats(ctx context.Context, group int, c *Column, from, to int, values []float64) error {
	numbers := numberTable{math.NaN()}
	var codes []uint32
	var err error
	if c != nil && c.Kind == format.Double {
		d := decoder{column: c, reader: r, table: &numbers}
		codes, err = d.decode(ctx, group, from, to, nil)
	} else {
		var texts Texts
		if err = r.Texts(ctx, group, c, from, to, &texts); err == nil {
			codes = texts.Codes
			for _, text := range texts.Values[1:] {
				number, failed := strconv.ParseFloat(text, 64)
				if failed != nil {
					number = math.NaN()
				}
				numbers = append(numbers, number)
			}
		}
	}
	if err != nil {
		return err
	}
	for i, code := range codes {
		values[i] = numbers[code]
	}
	return nil
}

// table collects the values of a column. Code 0 is NULL.
type table interface {
	// add adds n values and appends the code of each to codes. distinct: they are, because they are a dictionary's.
	add(codes []uint32, values encoding.Values, n int, distinct bool) []uint32
}

// decoder decodes rows of a column into codes of a table.
type decoder struct {
	column     *Column
	reader     *Reader
	table      table
	dictionary []uint32 // codes of its entries
}

// decode returns the codes of rows [from, to) of a row group, in the buffer if they fit.
func (d *decoder) decode(ctx context.Context, group, from, to int, buffer []uint32) (codes []uint32, err error) {
	if cap(buffer) < to-from {
		buffer = make([]uint32, to-from)
	}
	codes = buffer[:to-from]
	if d.column == nil {
		clear(codes)
		return codes, nil
	}
	defer func() {
		if p := recover(); p != nil { // the library's decoders trust their input
			err = damaged("column %s: %v", d.column.Name, p)
		}
	}()
	pages, err := d.reader.open(group, d.column)
	if err == nil {
		err = pages.walk(ctx, from, to, d.readDictionary, func(p page) error { return d.readPage(p, codes, from, to) })
	}
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", d.column.Name, err)
	}
	return codes, nil
}

// open returns the pages of a column of a row group.
func (r *Reader) open(group int, c *Column) (*pages, error) {
	g, p := &r.file.Groups[group], &r.pages
	if c.leaf >= len(g.chunks) {
		return nil, damaged("it is missing in row group %d", group)
	}
	p.rows, p.optional, p.chunk = g.Rows, c.optional, g.chunks[c.leaf]
	p.window, p.windowAt = p.window[:0], 0
	if err := p.chunk.check(r.file.size); g.Rows > 0 && err != nil {
		return nil, err
	}
	return p, nil
}

func (d *decoder) readDictionary(n int, data []byte) error {
	if d.dictionary != nil {
		return damaged("a second dictionary")
	}
	values, err := d.column.decode(data, format.Plain, n)
	if err != nil {
		return err
	}
	d.dictionary = d.table.add(make([]uint32, 0, n), values, n, true)
	return nil
}

// readPage decodes the rows [from, to) of a page.
func (d *decoder) readPage(p page, codes []uint32, from, to int) error {
	list, err := d.values(p)
	if err != nil {
		return err
	}
	first, last := max(from-p.first, 0), min(to-p.first, p.rows) // rows of the page
	codes = codes[p.first+first-from : p.first+last-from]
	switch {
	case p.values == 0:
		clear(codes)
	case p.present == nil:
		copy(codes, list[first:last])
	default:
		next := bytes.Count(p.present[:first], []byte{1})
		for i, b := range p.present[first:last] { // without a branch, because it would often be mispredicted
			codes[i] = uint32(b) * list[min(next, p.values-1)]
			next += int(b)
		}
	}
	return nil
}

// values returns the codes of a page's values.
func (d *decoder) values(p page) ([]uint32, error) {
	list := d.reader.codes[:0]
	if p.encoding == format.RLE && d.column.Kind == format.Boolean && len(p.data) > 4 { // runs behind their length
		p.encoding, p.data = format.RLEDictionary, append([]byte{1}, p.data[4:]...)
		d.dictionary = d.table.add(nil, encoding.BooleanValues([]byte{0b10}), 2, true)
	}
	switch p.encoding {
	case format.RLEDictionary, format.PlainDictionary: //nolint:staticcheck // older writers still use the second
		indices, err := d.indices(p)
		if err != nil {
			return nil, err
		}
		for _, i := range indices {
			list = append(list, d.dictionary[i])
		}
	default:
		values, err := d.column.decode(p.data, p.encoding, p.values)
		if err != nil {
			return nil, err
		}
		list = d.table.add(list, values, p.values, false)
	}
	d.reader.codes = list
	return list, nil
}

// indices returns the numbers of a page's values in the dictionary.
func (d *decoder) indices(p page) ([]int32, error) {
	if p.values == 0 {
		return nil, nil
	}
	if len(p.data) == 0 || p.data[0] > 32 {
		return nil, damaged("a page of indices without a bit width")
	}
	data, err := boundRuns(p.data[1:], int(p.data[0]), p.values)
	if err != nil {
		return nil, err
	}
	indices, err := new(rle.DictionaryEncoding).DecodeInt32(d.reader.indices, p.data[:1+len(data)])
	if err != nil {
		return nil, damaged("indices: %v", err)
	}
	d.reader.indices = indices
	highest := uint32(0)
	for _, i := range indices[:p.values] {
		highest = max(highest, uint32(i))
	}
	if highest >= uint32(len(d.dictionary)) {
		return nil, damaged("index %d in a dictionary of %d", highest, len(d.dictionary))
	}
	return indices[:p.values], nil
}

// types are the library's types of values, by physical type.
var types = map[format.Type]parquet.Type{
	format.Int32: parquet.Int32Type, format.Int64: parquet.Int64Type, format.Float: parquet.FloatType,
	format.Double: parquet.DoubleType, format.ByteArray: parquet.ByteArrayType, format.Boolean: parquet.BooleanType,
}

// decode decodes n values of a column.
func (c *Column) decode(data []byte, form format.Encoding, n int) (values encoding.Values, err error) {
	if n == 0 { // a column of NULLs has any type
		return values, nil
	}
	t, known := types[c.Kind]
	if !known {
		return values, unreadable("its values are of the type %s", c.Kind)
	}
	switch form {
	case format.Plain:
		if c.Kind == format.ByteArray {
			data, err = firstTexts(data, n)
		}
	case format.ByteStreamSplit:
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		if claimed := deltaCount(data); claimed != uint64(n) {
			err = damaged("%d values, %d expected", claimed, n)
		}
	default:
		err = unreadable("its values are encoded as %s", form)
	}
	if err != nil {
		return values, err
	}
	if values, err = t.Decode(t.NewValues(nil, nil), data, parquet.LookupEncoding(form)); err != nil {
		return values, damaged("%v", err)
	}
	bytes, offsets := values.Data()
	have := len(offsets) - 1
	if c.Kind != format.ByteArray {
		have = 8 * len(bytes) / t.Length() // in bits
	}
	if have < n {
		return values, damaged("%d values, %d expected", have, n)
	}
	return values, nil
}

// firstTexts returns the part of a page of texts that holds the first n. Each is preceded by its length.
func firstTexts(data []byte, n int) ([]byte, error) {
	at := 0
	for range n {
		if len(data)-at < 4 || binary.LittleEndian.Uint32(data[at:]) > uint32(len(data)-at-4) {
			return nil, damaged("a text beyond the end of its page")
		}
		at += 4 + int(binary.LittleEndian.Uint32(data[at:]))
	}
	return data[:at], nil
}

// deltaCount returns how many values a page of deltas claims to have: the third number of its header.
func deltaCount(data []byte) (count uint64) {
	for range 3 {
		var n int
		if count, n = binary.Uvarint(data); n <= 0 {
			return 0
		}
		data = data[n:]
	}
	return count
}

// numberTable collects doubles, most of which are distinct.
type numberTable []float64

func (t *numberTable) add(codes []uint32, values encoding.Values, n int, _ bool) []uint32 {
	if n == 0 {
		return codes
	}
	for i := range n {
		codes = append(codes, uint32(len(*t)+i))
	}
	*t = append(*t, values.Double()[:n]...)
	return codes
}

// textTable collects texts.
type textTable struct {
	column *Column
	texts  *Texts
	codes  map[string]uint32 // of the texts that are in no dictionary
}

func (t *textTable) add(codes []uint32, values encoding.Values, n int, distinct bool) []uint32 {
	t.column.each(values, n, func(text []byte) {
		code, known := t.codes[string(text)]
		if distinct || !known {
			code = uint32(len(t.texts.Values))
			t.texts.Values = append(t.texts.Values, string(text))
		}
		if !distinct && !known {
			if t.codes == nil {
				t.codes = map[string]uint32{}
			}
			t.codes[t.texts.Values[code]] = code
		}
		codes = append(codes, code)
	})
	return codes
}

// each calls give with the text of each of n values, which is valid until it returns.
func (c *Column) each(values encoding.Values, n int, give func(text []byte)) {
	if n == 0 {
		return
	}
	var text [40]byte
	switch c.Kind {
	case format.ByteArray:
		data, offsets := values.ByteArray()
		for i := range n {
			give(data[offsets[i]:offsets[i+1]])
		}
	case format.Boolean:
		bits := values.Boolean()
		for i := range n {
			give(append(text[:0], '0'+bits[i/8]>>(i%8)&1))
		}
	case format.Int32:
		for _, v := range values.Int32()[:n] {
			give(strconv.AppendInt(text[:0], int64(v), 10))
		}
	case format.Int64:
		for _, v := range values.Int64()[:n] {
			if c.unit > noTime {
				shown := c.unit.time(v).AppendFormat(text[:0], momentFormat)
				if c.zoned {
					shown = append(shown, "+00:00"...)
				}
				give(shown)
			} else {
				give(strconv.AppendInt(text[:0], v, 10))
			}
		}
	case format.Float:
		for _, v := range values.Float()[:n] {
			give(strconv.AppendFloat(text[:0], float64(v), 'f', -1, 32))
		}
	case format.Double:
		for _, v := range values.Double()[:n] {
			give(strconv.AppendFloat(text[:0], v, 'f', -1, 64))
		}
	}
}

// time returns the time that the collector's clock showed, as if it were UTC.
func (u timeUnit) time(value int64) time.Time {
	perSecond := int64(time.Second) / int64(u)
	seconds, rest := value/perSecond, value%perSecond
	return time.Unix(seconds, rest*int64(u)).UTC()
}
