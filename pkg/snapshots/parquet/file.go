// Package parquet reads and writes the monthly Parquet files of a collector (methodology section 1): the columns of
// gpu_state, appended in the order of time.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// File is a Parquet file whose footer was read. It is safe for concurrent use.
type File struct {
	// Columns are the columns without structure and the lists of texts, in the order of the file. Others are not read.
	Columns []Column
	Groups  []Group
	nested  []string // columns with another structure
	in      io.ReaderAt
	size    int64
	leaves  int // number of columns in a row group, including those with structure
}

// Column is a column that holds at most one value a row, or a list of texts, which is read as one text: a,b.
type Column struct {
	Name   string
	Kind   format.Type // physical type
	leaf   int         // its number among the columns of a row group
	unit   timeUnit
	zoned  bool                   // its times are of UTC
	list   bool                   // of texts
	schema []format.SchemaElement // the part of the schema that the library needs
}

// timeUnit is the unit of the integers of a column.
type timeUnit int64

const (
	noTime timeUnit = 0       // they are plain numbers
	nanos  timeUnit = 1       // ns since 1970-01-01 00:00 of the collector's clock, or of UTC if they are zoned
	micros timeUnit = 1000    // µs
	millis timeUnit = 1000000 // ms
)

// Group is a row group: rows that are written together, and that no appending changes once another one follows.
type Group struct {
	Rows int
	// Key identifies a row group by the types, sizes and statistics of its columns, wherever it is in the file.
	Key    uint64
	chunks []chunk // by Column.leaf
}

// chunk is the place of a column of a row group in the file, as far as the footer is right.
type chunk struct {
	at, end   int64
	codec     format.CompressionCodec
	min, max  []byte // smallest and largest value, as stored; nil if the footer lacks them
	nulls     int64
	values    int64 // as the footer says; a list has several in a row
	elsewhere bool  // in another file
}

// check returns an error unless the chunk lies in a file of a size.
func (c *chunk) check(size int64) error {
	switch {
	case c.elsewhere:
		return damaged("it is in another file")
	case c.at < int64(len(magic)) || c.end < c.at || c.end > size:
		return damaged("it ranges from byte %d to %d of %d", c.at, c.end, size)
	}
	return nil
}

// Open reads the footer of a file of a size. Errors: it is damaged, encrypted or of another format.
func Open(r io.ReaderAt, size int64) (*File, error) {
	metadata, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{in: r, size: size}
	if err := f.readSchema(metadata.Schema); err != nil {
		return nil, err
	}
	schema := schemaKey(metadata.Schema)
	for i := range metadata.RowGroups {
		g := &metadata.RowGroups[i]
		if g.NumRows < 0 || g.NumRows > pool.MostGroupRows || len(g.Columns) != f.leaves {
			return nil, damaged("row group %d: %d rows, %d columns", i, g.NumRows, len(g.Columns))
		}
		key, err := groupKey(g, schema)
		if err != nil {
			return nil, err
		}
		f.Groups = append(f.Groups, Group{Rows: int(g.NumRows), Key: key, chunks: chunksOf(g)})
	}
	if rows := f.Rows(); int64(rows) != metadata.NumRows {
		return nil, damaged("%d rows in its row groups, %d in its footer", rows, metadata.NumRows)
	}
	return f, nil
}

// on returns the file as it is read from elsewhere.
func (f *File) on(in io.ReaderAt) *File {
	other := *f
	other.in = in
	return &other
}

// OpenFile opens the file of a path and reads its footer.
func OpenFile(path string) (*File, error) {
	in, err := os.Open(path) //nolint:gosec // the user of a command names it
	if err != nil {
		return nil, err
	}
	var f *File
	info, err := in.Stat()
	if err == nil {
		f, err = Open(in, info.Size())
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return f, nil
}

// Close closes a file of OpenFile.
func (f *File) Close() error {
	if in, ok := f.in.(io.Closer); ok {
		return in.Close()
	}
	return nil
}

// chunksOf returns the chunks of a row group. They are checked when they are read, so that a damaged column that no
// query needs does no harm. Row groups without rows may have any.
func chunksOf(g *format.RowGroup) []chunk {
	chunks := make([]chunk, len(g.Columns))
	for i := range g.Columns {
		m := &g.Columns[i].MetaData
		c := chunk{at: m.DataPageOffset, codec: m.Codec, nulls: m.Statistics.NullCount, values: m.NumValues}
		if d := m.DictionaryPageOffset; d > 0 && d < c.at {
			c.at = d
		}
		if c.min, c.max = m.Statistics.MinValue, m.Statistics.MaxValue; c.min == nil || c.max == nil {
			c.min, c.max = m.Statistics.Min, m.Statistics.Max
		}
		c.end = c.at + m.TotalCompressedSize
		c.elsewhere = g.Columns[i].FilePath != ""
		chunks[i] = c
	}
	return chunks
}

// Column returns the column of a name, nil if the file does not have it.
func (f *File) Column(name string) *Column {
	i := slices.IndexFunc(f.Columns, func(c Column) bool { return c.Name == name })
	if i < 0 {
		i = slices.IndexFunc(f.Columns, func(c Column) bool { return strings.EqualFold(c.Name, name) })
	}
	if i < 0 {
		return nil
	}
	return &f.Columns[i]
}

func (f *File) has(column string) bool { return f.Column(column) != nil }

// check returns an error unless the file has the columns that a month needs, in a form that is read.
func (f *File) check() error {
	for _, name := range f.nested {
		if slices.Contains(snapshots.RequiredColumns, name) {
			return fmt.Errorf("its column %s has a structure: write it as a text, such as a,b", name)
		}
	}
	return snapshots.CheckColumns(f.has)
}

// Rows is the number of rows of the file.
func (f *File) Rows() (n int) {
	for i := range f.Groups {
		n += f.Groups[i].Rows
	}
	return n
}

// readSchema fills in the columns, which are the children of the first element.
func (f *File) readSchema(schema []format.SchemaElement) error {
	if len(schema) == 0 || !schema[0].NumChildren.Valid {
		return damaged("no schema")
	}
	rest := schema[1:]
	for range schema[0].NumChildren.V {
		// Take the elements of the next column: one, or those of a structure.
		n, leaves := 0, 0
		for left := int64(1); left > 0; n++ {
			if n == len(rest) {
				return damaged("a schema with %d elements", len(schema))
			}
			children := int64(max(rest[n].NumChildren.V, 0))
			if left += children - 1; children == 0 {
				leaves++
			}
		}
		// Keep it if it is a list of texts, or has no structure.
		e, repetition := &rest[0], rest[0].RepetitionType
		switch list := listOf(rest[:n]); {
		case list != nil:
			f.Columns = append(f.Columns, Column{Name: e.Name, Kind: format.ByteArray, leaf: f.leaves, list: true,
				schema: list})
		case n > 1 || repetition.V == format.Repeated:
			f.nested = append(f.nested, e.Name)
		case e.Type.Valid:
			repetition.Valid = true
			c := Column{Name: e.Name, Kind: e.Type.V, leaf: f.leaves, schema: []format.SchemaElement{
				{Name: e.Name, Type: e.Type, TypeLength: e.TypeLength, RepetitionType: repetition}}}
			c.unit, c.zoned = unitOf(e)
			f.Columns = append(f.Columns, c)
		}
		f.leaves, rest = f.leaves+leaves, rest[n:]
	}
	if len(rest) > 0 {
		return damaged("a schema with %d elements", len(schema))
	}
	return nil
}

// listOf returns the elements of a schema's next column if it is a list of texts: a group with a repeated group with a
// text in it, or a repeated text, alone or in a group. Otherwise it returns nil.
func listOf(schema []format.SchemaElement) []format.SchemaElement {
	repeated := 0
	for i := range min(len(schema), 3) {
		e := &schema[i]
		if e.RepetitionType.V == format.Repeated {
			repeated++
		}
		switch {
		case e.NumChildren.V == 1 && !e.Type.Valid:
		case e.NumChildren.V == 0 && e.Type.Valid && e.Type.V == format.ByteArray && repeated == 1:
			return schema[:i+1]
		default:
			return nil
		}
	}
	return nil
}

// unitOf returns what a column's integers count, and whether they do so from a moment of UTC.
func unitOf(e *format.SchemaElement) (unit timeUnit, zoned bool) {
	if t, ok := e.LogicalType.Value.(*format.TimestampType); ok {
		switch t.Unit.Value.(type) {
		case *format.NanoSeconds:
			return nanos, t.IsAdjustedToUTC
		case *format.MilliSeconds:
			return millis, t.IsAdjustedToUTC
		}
		return micros, t.IsAdjustedToUTC
	}
	if e.ConvertedType.Valid { // older writers know no other form, and use it for local times as well
		switch e.ConvertedType.V {
		case deprecated.TimestampMicros:
			return micros, false
		case deprecated.TimestampMillis:
			return millis, false
		}
	}
	return noTime, false
}

// schemaKey is a hash of the columns' names and types.
func schemaKey(schema []format.SchemaElement) uint64 {
	h := xxhash.New()
	for i := range schema {
		e := &schema[i]
		fmt.Fprintf(h, "%s\x00%s\x00%d %d ", e.Name, e.LogicalType.String(), e.Type.V, e.RepetitionType.V)
	}
	return h.Sum64()
}

// groupKey is a hash of what the footer says of a row group's columns, without their positions.
func groupKey(g *format.RowGroup, schema uint64) (uint64, error) {
	h := xxhash.New()
	fmt.Fprint(h, schema, g.NumRows)
	for i := range g.Columns {
		m := g.Columns[i].MetaData
		m.DataPageOffset, m.DictionaryPageOffset, m.IndexPageOffset, m.BloomFilterOffset = 0, 0, 0, 0
		text, err := thrift.Marshal(new(thrift.CompactProtocol), &m)
		if err != nil {
			return 0, err
		}
		_, _ = h.Write(text) // never fails
	}
	return h.Sum64(), nil
}
