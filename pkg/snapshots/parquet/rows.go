package parquet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// Fields are the file's columns in its order. Errors: one has a form that could not be written again.
func (f *File) Fields() ([]Field, error) {
	if f.leaves != len(f.Columns) {
		return nil, fmt.Errorf("it has a column of lists or of other nested values")
	}
	fields := make([]Field, len(f.Columns))
	for i := range f.Columns {
		c := &f.Columns[i]
		kind, known := kinds[c.Kind]
		switch {
		case f.empty(c): // writers give it any type
			kind = kindOfEmpty(c.Name)
		case c.zoned: // with +00:00 after it, because the rows that follow have the time of the collector's clock
			kind = Text
		case c.unit > noTime:
			kind = Moment
		case !known:
			return nil, fmt.Errorf("its column %s has the type %s", c.Name, c.Kind)
		}
		fields[i] = Field{c.Name, kind}
	}
	return fields, nil
}

// empty reports whether a column is NULL in all rows, as far as the footer says.
func (f *File) empty(c *Column) bool {
	return !slices.ContainsFunc(f.Groups, func(g Group) bool { return g.chunks[c.leaf].nulls != int64(g.Rows) })
}

// kindOfEmpty is the kind of a column without a value.
func kindOfEmpty(name string) Kind {
	for _, f := range slices.Concat(Schema, QueueSchema) {
		if f.Name == name {
			return f.Kind
		}
	}
	return Text
}

// EachRow gives the rows of the row groups from one onward to visit, with a value for each field as Writer.Write takes
// it; fields that the file does not have are nil. The row is valid until visit returns.
func (f *File) EachRow(ctx context.Context, from int, fields []Field, visit func(row []any) error) error {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Name
	}
	row := make([]any, len(fields))
	visitAll := func(_, rows int, texts []Texts) (err error) {
		values := make([][]any, len(fields))
		for i, field := range fields {
			if values[i], err = field.values(texts[i].Values); err != nil {
				return err
			}
		}
		for n := range rows {
			for i := range fields {
				row[i] = values[i][texts[i].Codes[n]]
			}
			if err := visit(row); err != nil {
				return err
			}
		}
		return nil
	}
	for g := from; g < len(f.Groups); g++ {
		if err := f.batches(ctx, g, 0, f.Groups[g].Rows, names, visitAll); err != nil {
			return err
		}
	}
	return nil
}

// EachRow gives the rows of a file to visit, as the texts of some columns: "" for NULL, and for a column that the file
// lacks. Before that, check learns which columns the file has, and can refuse it.
func EachRow(ctx context.Context, in io.ReaderAt, size int64, columns []string,
	check func(has func(column string) bool) error, visit func(row []string)) error {
	f, err := Open(in, size)
	if err != nil {
		return err
	}
	if err := check(f.has); err != nil {
		return err
	}
	fields, row := make([]Field, len(columns)), make([]string, len(columns))
	for i, name := range columns {
		fields[i] = Field{name, Text}
	}
	return f.EachRow(ctx, 0, fields, func(values []any) error {
		for i, value := range values {
			row[i], _ = value.(string)
		}
		visit(row)
		return nil
	})
}

// values converts the values of a column; the first one is NULL.
func (f Field) values(texts []string) ([]any, error) {
	values := make([]any, len(texts))
	for i, text := range texts[1:] {
		var err error
		switch f.Kind {
		case Integer:
			values[i+1], err = strconv.ParseInt(text, 10, 64)
		case Real:
			values[i+1], err = strconv.ParseFloat(text, 64)
		default:
			values[i+1] = text
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return values, nil
}

// Count returns the number of rows of a month file with a timestamp (YYYY-MM-DD HH:MM:SS.ffffff).
func Count(ctx context.Context, path, timestamp string) (rows int, err error) {
	f, err := OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	times, err := f.timestamps(ctx)
	return times[timestamp], err
}

// Timestamps returns the timestamps of a file's rows and how many rows have each, as the collector writes them.
func Timestamps(ctx context.Context, in io.ReaderAt, size int64) (map[string]int, error) {
	f, err := Open(in, size)
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	return f.timestamps(ctx)
}

// timestamps returns the number of rows with each timestamp.
func (f *File) timestamps(ctx context.Context) (map[string]int, error) {
	found := map[string]int{}
	err := f.EachRow(ctx, 0, []Field{{snapshots.TimestampColumn, Text}}, func(row []any) error {
		if text, ok := row[0].(string); ok {
			found[text]++
		}
		return nil
	})
	return found, err
}
