package parquet

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// GroupRows is the most rows of a row group that is written, as polars has it.
const GroupRows = 512 * 512

// Kind is the kind of a written column's values.
type Kind int

// The kinds of columns, and the Go type of their values in a row. NULL is nil everywhere.
const (
	Text    Kind = iota // string
	Integer             // int64
	Real                // float64
	Moment              // string: YYYY-MM-DD HH:MM:SS[.ffffff], as the collector's clock showed it
)

// Field is a column to be written.
type Field struct {
	Name string
	Kind Kind
}

// Schema has the columns that the collector writes, in its order.
var Schema = []Field{
	{"Name", Text}, {"AssignedGPUs", Text}, {"AvailableGPUs", Text}, {"State", Text}, {"GPUs_DeviceName", Text},
	{"GPUs_GlobalMemoryMb", Integer}, {"PrioritizedProjects", Text}, {"GPUsAverageUsage", Real}, {"Machine", Text},
	{"RemoteOwner", Text}, {"GlobalJobId", Text}, {"PreventJobsReason", Text}, {"Disk", Integer}, {"timestamp", Moment},
	{"Cpus", Integer}, {"Memory", Integer}, {"SlotType", Text}, {"SlotBrokenReason", Text}, {"BackfillSlot", Integer},
}

// QueueSchema has the columns that the collector writes for the queues (methodology section 14), in the poller's order.
var QueueSchema = []Field{
	{"GlobalJobId", Text}, {"ScheddName", Text}, {"Owner", Text}, {"RequestGPUs", Real}, {"RequestCPUs", Real},
	{"RequestMemory", Real}, {"RequestGPUMemory", Real}, {"QDate", Integer}, {"ChtcProjects", Text}, {"JobState", Text},
	{"first_seen", Integer}, {"last_seen", Integer},
}

// Writer writes a file row by row. Rows are kept in memory, encoded, until their row group is full.
type Writer struct {
	fields []Field
	file   *parquet.Writer //nolint:staticcheck // takes rows of a schema that is known at run time only
	row    parquet.Row     // a buffer
	rows   int             // that were written
}

// NewWriter returns a writer of a file with these columns: zstd, dictionaries for all but reals.
func NewWriter(out io.Writer, fields []Field) *Writer {
	group := ordered{Group: parquet.Group{}}
	for _, f := range fields {
		group.Group[f.Name] = parquet.Optional(nodes[f.Kind])
		group.names = append(group.names, f.Name)
	}
	return &Writer{fields: fields, file: parquet.NewWriter(out, parquet.NewSchema("root", group),
		parquet.Compression(&zstd.Codec{}), parquet.DataPageVersion(1), parquet.DataPageStatistics(false),
		parquet.CreatedBy("GPU Reports for Grafana", "", ""))}
}

// nodes are the forms of columns.
var nodes = [...]parquet.Node{
	Text:    parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
	Integer: parquet.Encoded(parquet.Leaf(parquet.Int64Type), &parquet.RLEDictionary),
	Real:    parquet.Leaf(parquet.DoubleType),
	Moment:  parquet.Encoded(parquet.TimestampAdjusted(parquet.Microsecond, false), &parquet.RLEDictionary),
}

// ordered is a group whose fields keep their order.
type ordered struct {
	parquet.Group
	names []string
}

func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	place := func(f parquet.Field) int { return slices.Index(o.names, f.Name()) }
	slices.SortFunc(fields, func(a, b parquet.Field) int { return place(a) - place(b) })
	return fields
}

// Write appends a row: a value for each field, nil for NULL. Errors: a value does not fit its column; writing failed.
func (w *Writer) Write(row []any) error {
	w.row = w.row[:0]
	for i, f := range w.fields {
		value, err := f.value(row[i])
		if err != nil {
			return err
		}
		level := 1
		if row[i] == nil {
			level = 0
		}
		w.row = append(w.row, value.Level(0, level, i))
	}
	if _, err := w.file.WriteRows([]parquet.Row{w.row}); err != nil {
		return err
	}
	if w.rows++; w.rows%GroupRows == 0 { // the library's limit would split larger row groups that are copied
		return w.Flush()
	}
	return nil
}

// copyGroups copies the first row groups of a file, byte for byte. Errors: it has other columns; it is damaged.
func (w *Writer) copyGroups(ctx context.Context, f *File, groups int) error {
	if groups == 0 {
		return nil
	}
	file, err := parquet.OpenFile(f.in, f.size, parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	for _, g := range file.RowGroups()[:groups] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := w.file.WriteRowGroup(g); err != nil {
			return err
		}
	}
	return nil
}

// Flush ends the row group, if it has a row.
func (w *Writer) Flush() error { return w.file.Flush() }

// Close writes the last row group and the footer. It does not close the underlying writer.
func (w *Writer) Close() error { return w.file.Close() }

// value converts a value to the form of the column.
func (f Field) value(v any) (parquet.Value, error) {
	switch v := v.(type) {
	case nil:
		return parquet.NullValue(), nil
	case string:
		switch f.Kind {
		case Text:
			return parquet.ByteArrayValue([]byte(v)), nil
		case Moment:
			t, err := parseMoment(v)
			return parquet.Int64Value(t), err
		}
	case int64:
		switch f.Kind {
		case Integer:
			return parquet.Int64Value(v), nil
		case Real:
			return parquet.DoubleValue(float64(v)), nil
		}
	case float64:
		switch {
		case f.Kind == Real:
			return parquet.DoubleValue(v), nil
		case f.Kind == Integer && v == math.Trunc(v) && math.Abs(v) <= 1<<53:
			return parquet.Int64Value(int64(v)), nil
		}
	}
	return parquet.Value{}, fmt.Errorf("column %s cannot hold %v (%T)", f.Name, v, v)
}

// momentFormat is how times are shown.
const momentFormat = "2006-01-02 15:04:05.000000"

// parseMoment returns the microseconds since 1970-01-01 00:00 by the collector's clock.
func parseMoment(text string) (int64, error) {
	t, err := time.Parse("2006-01-02 15:04:05.999999", text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time of the form YYYY-MM-DD HH:MM:SS.ffffff", text)
	}
	return t.UnixMicro(), nil
}

// ReadMoment returns a time as it is read back after it was written. Errors: it is not a time.
func ReadMoment(text string) (string, error) {
	t, err := parseMoment(text)
	return micros.time(t).Format(momentFormat), err
}
