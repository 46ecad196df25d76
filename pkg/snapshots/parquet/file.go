// Package parquet reads and writes the monthly Parquet files of a collector (methodology section 1): the columns of
// gpu_state, appended in the order of time.
package parquet

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// File is what the footer of a Parquet file says. It is safe for concurrent use.
type File struct {
	// Columns are the columns without structure, in the order of the file. Others are not read.
	Columns []Column
	Groups  []Group
}

// Column is a column that holds at most one value a row.
type Column struct {
	Name     string
	Kind     format.Type // physical type
	leaf     int         // its number among the columns of a row group
	optional bool
	unit     timeUnit
}

// timeUnit says what the integers of a column count.
type timeUnit int64

const (
	noTime    timeUnit = 0       // they are plain numbers
	nanos     timeUnit = 1       // ns since 1970-01-01 00:00 of the collector's clock
	micros    timeUnit = 1000    // µs
	millis    timeUnit = 1000000 // ms
	zonedTime timeUnit = -1      // the file says that they are UTC
)

// Group is a row group: rows that are written together, and that no later rewriting of the file changes once another
// one follows.
type Group struct {
	Rows int
	// Key identifies a row group by its content: their columns, rows, sizes and statistics. Where the group stands in
	// the file is no part of it.
	Key    uint64
	chunks []chunk // by Column.leaf
}

// chunk is where the file holds a column of a row group.
type chunk struct {
	at, end  int64
	codec    format.CompressionCodec
	min, max []byte // smallest and largest value, as stored; nil = not in the footer
	nulls    int64
}

// Open reads the footer of a file of a size. Errors: it is damaged, encrypted or of another format.
func Open(r io.ReaderAt, size int64) (*File, error) {
	metadata, end, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	f := new(File)
	leaves, err := f.readSchema(metadata.Schema)
	if err != nil {
		return nil, err
	}
	schema := schemaKey(metadata.Schema)
	rows := int64(0)
	for i := range metadata.RowGroups {
		g, err := f.readGroup(&metadata.RowGroups[i], leaves, end)
		if err != nil {
			return nil, damaged("row group %d: %v", i, err)
		}
		if g.Key, err = groupKey(&metadata.RowGroups[i], schema); err != nil {
			return nil, err
		}
		f.Groups = append(f.Groups, g)
		rows += int64(g.Rows)
	}
	if rows != metadata.NumRows {
		return nil, damaged("%d rows in its row groups, %d in its footer", rows, metadata.NumRows)
	}
	return f, nil
}

// bytes returns where the file holds the row group.
func (g *Group) bytes() (from, to int64) {
	for i, c := range g.chunks {
		if i == 0 || c.at < from {
			from = c.at
		}
		to = max(to, c.end)
	}
	return from, to
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

// Rows is the number of rows of the file.
func (f *File) Rows() (n int) {
	for i := range f.Groups {
		n += f.Groups[i].Rows
	}
	return n
}

// readSchema fills in the columns and returns the number of leaves.
func (f *File) readSchema(schema []format.SchemaElement) (leaves int, err error) {
	if len(schema) == 0 || !schema[0].NumChildren.Valid {
		return 0, damaged("no schema")
	}
	// open[i] is how many children of the i-th enclosing element are still to come
	open := []int32{schema[0].NumChildren.V}
	for i := range schema[1:] {
		e := &schema[i+1]
		for len(open) > 0 && open[len(open)-1] == 0 {
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return 0, damaged("a schema with elements of no parent")
		}
		open[len(open)-1]--
		if e.NumChildren.Valid && e.NumChildren.V > 0 {
			open = append(open, e.NumChildren.V)
			continue
		}
		repetition := e.RepetitionType
		if len(open) == 1 && e.Type.Valid && repetition.V != format.Repeated {
			f.Columns = append(f.Columns, Column{
				Name: e.Name, Kind: e.Type.V, leaf: leaves,
				optional: repetition.Valid && repetition.V == format.Optional, unit: unitOf(e),
			})
		}
		leaves++
	}
	if slices.ContainsFunc(open, func(n int32) bool { return n != 0 }) {
		return 0, damaged("a schema that lacks elements")
	}
	return leaves, nil
}

// unitOf returns what a column's integers count.
func unitOf(e *format.SchemaElement) timeUnit {
	if t, ok := e.LogicalType.Value.(*format.TimestampType); ok {
		if t.IsAdjustedToUTC {
			return zonedTime
		}
		switch t.Unit.Value.(type) {
		case *format.NanoSeconds:
			return nanos
		case *format.MilliSeconds:
			return millis
		}
		return micros
	}
	if e.ConvertedType.Valid { // older writers know no other form, and use it for local times as well
		switch e.ConvertedType.V {
		case deprecated.TimestampMicros:
			return micros
		case deprecated.TimestampMillis:
			return millis
		}
	}
	return noTime
}

// readGroup checks that a row group lies within the bytes of the file before its footer.
func (f *File) readGroup(g *format.RowGroup, leaves int, end int64) (Group, error) {
	if g.NumRows < 0 || g.NumRows > maxGroupRows {
		return Group{}, damaged("%d rows", g.NumRows)
	}
	if len(g.Columns) != leaves {
		return Group{}, damaged("%d columns, the schema has %d", len(g.Columns), leaves)
	}
	group := Group{Rows: int(g.NumRows), chunks: make([]chunk, leaves)}
	for i := range g.Columns {
		m := &g.Columns[i].MetaData
		c := chunk{at: m.DataPageOffset, codec: m.Codec, nulls: m.Statistics.NullCount}
		if d := m.DictionaryPageOffset; d > 0 && d < c.at {
			c.at = d
		}
		if c.min, c.max = m.Statistics.MinValue, m.Statistics.MaxValue; c.min == nil || c.max == nil {
			c.min, c.max = m.Statistics.Min, m.Statistics.Max
		}
		if m.TotalCompressedSize < 0 || c.at < int64(len(magic)) || c.at > end || m.TotalCompressedSize > end-c.at {
			return Group{}, damaged("column %d at byte %d, %d bytes long", i, c.at, m.TotalCompressedSize)
		}
		c.end = c.at + m.TotalCompressedSize
		if g.Columns[i].FilePath != "" {
			return Group{}, damaged("column %d is in another file", i)
		}
		group.chunks[i] = c
	}
	return group, nil
}

// schemaKey is a hash of the columns' names and types.
func schemaKey(schema []format.SchemaElement) uint64 {
	h := xxhash.New()
	for i := range schema {
		_, _ = h.WriteString(schema[i].Name + "\x00" + schema[i].LogicalType.String() + "\x00") // never fails
		_, _ = h.Write([]byte{byte(schema[i].Type.V), byte(schema[i].RepetitionType.V)})
	}
	return h.Sum64()
}

// groupKey is a hash of a row group's entry in the footer, without where it stands.
func groupKey(g *format.RowGroup, schema uint64) (uint64, error) {
	entry := *g
	entry.FileOffset, entry.Ordinal = 0, 0
	entry.Columns = slices.Clone(g.Columns)
	for i := range entry.Columns {
		c := &entry.Columns[i]
		m := &c.MetaData
		m.DataPageOffset, m.DictionaryPageOffset, m.IndexPageOffset, m.BloomFilterOffset = 0, 0, 0, 0
		c.FileOffset, c.ColumnIndexOffset, c.OffsetIndexOffset = 0, 0, 0
		c.ColumnIndexLength, c.OffsetIndexLength = 0, 0
	}
	text, err := thrift.Marshal(new(thrift.CompactProtocol), &entry)
	if err != nil {
		return 0, err
	}
	h := xxhash.New()
	_ = binary.Write(h, binary.LittleEndian, schema) // never fails
	_, _ = h.Write(text)
	return h.Sum64(), nil
}
