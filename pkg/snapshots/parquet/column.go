package parquet

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
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

// At returns the text of a row, "" for NULL.
func (t *Texts) At(row int) string { return t.Values[t.Codes[row]] }

// batchRows bounds the rows of which columns are held at once: a row group of polars'.
const batchRows = GroupRows

// columns reads the rows [from, to) of some columns of a row group: numbers as decimals, times as the collector's clock
// showed them (YYYY-MM-DD HH:MM:SS.ffffff), those of UTC with +00:00 after them, booleans as 1 and 0. A column that the
// file does not have is NULL everywhere.
func (f *File) columns(ctx context.Context, group, from, to int, names []string) ([]Texts, error) {
	columns := make([]*Column, len(names))
	for i, name := range names {
		columns[i] = f.Column(name)
	}
	read, err := f.read(group, columns)
	if err != nil {
		return nil, err
	}
	all := make([]Texts, len(names))
	for i, c := range columns {
		all[i] = Texts{Codes: make([]uint32, to-from), Values: []string{""}}
		if c == nil {
			continue
		}
		d := decoder{column: c, texts: &all[i]}
		if d.pages, err = f.open(group, c, read); err == nil {
			err = d.read(ctx, from, to)
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
	}
	return all, nil
}

// batches gives the rows [from, to) of some columns of a row group to visit, one batch after another.
func (f *File) batches(ctx context.Context, group, from, to int, names []string,
	visit func(first, rows int, texts []Texts) error) error {
	for first := from; first < to; first += batchRows {
		end := min(first+batchRows, to)
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

// decoder decodes rows of a column.
type decoder struct {
	*pages
	column     *Column
	texts      *Texts
	dictionary uint32 // the code of its first entry; 0 if there is none
	entries    uint32
}

// read reads the pages with the rows [from, to).
func (d *decoder) read(ctx context.Context, from, to int) (err error) {
	defer func() {
		if p := recover(); p != nil { // the library's decoders trust their input
			err = damaged("%v", p)
		}
	}()
	for row := 0; row < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, packed, err := d.next()
		if err != nil {
			return err
		}
		switch header.Type {
		case format.DictionaryPage: // also if the footer mentions none
			if err := d.readDictionary(header, packed); err != nil {
				return err
			}
		case format.DataPage, format.DataPageV2:
			rows, err := d.rowsOf(header, row)
			if err != nil {
				return err
			}
			if row+rows > from {
				codes, err := d.readPage(header, packed, rows)
				if err != nil {
					return err
				}
				first := max(from-row, 0)
				copy(d.texts.Codes[row+first-from:], codes[first:])
			}
			row += rows
		}
	}
	return nil
}

func (d *decoder) readDictionary(header *format.PageHeader, packed []byte) error {
	values := int64(header.DictionaryPageHeader.V.NumValues)
	switch {
	case !header.DictionaryPageHeader.Valid || values < 0 || values > d.maxValues():
		return damaged("a dictionary of %d values", values)
	case d.dictionary > 0:
		return damaged("a second dictionary")
	}
	data, err := d.decompress(packed, int(header.UncompressedPageSize))
	if err != nil {
		return err
	}
	d.dictionary, d.entries = uint32(len(d.texts.Values)), uint32(values)
	return d.values(format.Plain, data, int(values))
}

// readPage returns the codes of the rows of a data page.
func (d *decoder) readPage(header *format.PageHeader, packed []byte, rows int) ([]uint32, error) {
	form, levels, data, err := d.split(header, packed, d.column.optional)
	if err != nil {
		return nil, err
	}
	if !d.column.optional {
		return d.codes(form, data, rows)
	}
	present, err := unpack(levels, 1, rows) // 1 for each row with a value, 0 for NULL
	if err != nil {
		return nil, err
	}
	values := 0
	for _, one := range present {
		values += int(one)
	}
	codes, err := d.codes(form, data, values)
	if err != nil || values == rows {
		return codes, err
	}
	next := 0
	for i, one := range present {
		if one == 1 {
			present[i] = codes[next]
			next++
		}
	}
	return present, nil
}

// codes returns the codes of a page's values.
func (d *decoder) codes(form format.Encoding, data []byte, n int) ([]uint32, error) {
	if n == 0 {
		return nil, nil
	}
	if form == format.RLE && d.column.Kind == format.Boolean && len(data) > 4 { // runs behind their length
		form, data = format.RLEDictionary, append([]byte{1}, data[4:]...)
		d.dictionary, d.entries = uint32(len(d.texts.Values)), 2
		d.texts.Values = append(d.texts.Values, "0", "1")
	}
	switch form {
	case format.RLEDictionary, format.PlainDictionary: //nolint:staticcheck // older writers still use the second
		if len(data) == 0 || data[0] > 32 {
			return nil, damaged("a page of indices without a bit width")
		}
		codes, err := unpack(data[1:], int(data[0]), n)
		if err != nil {
			return nil, err
		}
		if highest := slices.Max(codes); highest >= d.entries {
			return nil, damaged("index %d in a dictionary of %d", highest, d.entries)
		}
		for i := range codes {
			codes[i] += d.dictionary
		}
		return codes, nil
	}
	codes := make([]uint32, n)
	for i := range codes {
		codes[i] = uint32(len(d.texts.Values) + i)
	}
	return codes, d.values(form, data, n)
}

// types are the library's types of values, and the kinds in which they are written again, by physical type.
var types = map[format.Type]struct {
	parquet.Type
	kind Kind
}{
	format.Int32: {parquet.Int32Type, Integer}, format.Int64: {parquet.Int64Type, Integer},
	format.Float: {parquet.FloatType, Real}, format.Double: {parquet.DoubleType, Real},
	format.ByteArray: {parquet.ByteArrayType, Text}, format.Boolean: {parquet.BooleanType, Integer},
}

// values decodes n values, each of which gets the next code.
func (d *decoder) values(form format.Encoding, data []byte, n int) (err error) {
	if n == 0 { // a column of NULLs has any type
		return nil
	}
	t, known := types[d.column.Kind]
	if !known {
		return unreadable("its values are of the type %s", d.column.Kind)
	}
	switch form {
	case format.Plain:
		if d.column.Kind == format.ByteArray {
			return d.plainTexts(data, n)
		}
	case format.ByteStreamSplit:
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		if claimed := deltaCount(data); claimed != uint64(n) {
			return damaged("%d values, %d expected", claimed, n)
		}
	default:
		return unreadable("its values are encoded as %s", form)
	}
	values, err := t.Decode(t.NewValues(nil, nil), data, parquet.LookupEncoding(form))
	if err != nil {
		return damaged("%v", err)
	}
	if have := count(t, values); have < n {
		return damaged("%d values, %d expected", have, n)
	}
	list := make([]parquet.Value, n)
	_, _ = t.NewPage(0, n, values).Values().ReadValues(list) // all of them, and io.EOF
	for _, v := range list {
		d.texts.Values = append(d.texts.Values, d.column.text(v))
	}
	return nil
}

// count returns how many values of a type there are.
func count(t parquet.Type, values encoding.Values) int {
	bytes, offsets := values.Data()
	if t.Kind() == parquet.ByteArray {
		return len(offsets) - 1
	}
	return 8 * len(bytes) / t.Length() // in bits
}

// plainTexts decodes n texts, each of which is preceded by its length.
func (d *decoder) plainTexts(data []byte, n int) error {
	for range n {
		if len(data) < 4 || binary.LittleEndian.Uint32(data) > uint32(len(data)-4) {
			return damaged("a text beyond the end of its page")
		}
		end := 4 + int(binary.LittleEndian.Uint32(data))
		d.texts.Values = append(d.texts.Values, string(data[4:end]))
		data = data[end:]
	}
	return nil
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

// unpack decodes values of a bit width, at most 32, from a sequence of runs. Errors: there are too few, or a run claims
// more values than a writer would fill it up to.
func unpack(data []byte, width, values int) ([]uint32, error) {
	const most = 256 // DuckDB fills up the last run to a multiple of it
	const word = 8   // bytes that are read at once
	data = append(slices.Clip(data), make([]byte, word)...)
	all := make([]uint32, 0, values)
	for left := values; left > 0; left = values - len(all) {
		run, n := binary.Uvarint(data[:len(data)-word])
		if n <= 0 {
			return nil, damaged("%d values too few", left)
		}
		data = data[n:]
		packed := run&1 == 1
		count, size := min(run>>1, math.MaxInt32), uint64(width+7)/8
		if packed { // groups of eight
			count, size = 8*count, count*uint64(width)
		}
		if count > uint64(left+most) || size > uint64(len(data)-word) {
			return nil, damaged("a run of %d values in %d bytes, %d values expected", count, len(data)-word, left)
		}
		for i := range min(int(count), left) {
			at := 0
			if packed {
				at = i * width
			}
			value := binary.LittleEndian.Uint64(data[at/8:]) >> (at % 8)
			all = append(all, uint32(value&(1<<width-1)))
		}
		data = data[size:]
	}
	return all, nil
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
