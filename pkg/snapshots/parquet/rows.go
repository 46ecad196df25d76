package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// batchRows bounds the rows of which columns are held at once.
const batchRows = 1 << 16

// Fields are the file's columns in its order. Errors: one has a form that could not be written again.
func (f *File) Fields() ([]Field, error) {
	if f.leaves != len(f.Columns) {
		return nil, fmt.Errorf("it has a column of lists or of other nested values")
	}
	fields := make([]Field, len(f.Columns))
	for i := range f.Columns {
		c := &f.Columns[i]
		kind, ok := kindOf(c)
		if f.empty(c) { // writers give it any type
			kind, ok = kindOfEmpty(c.Name), true
		}
		if !ok {
			return nil, fmt.Errorf("its column %s has the type %s", c.Name, c.Kind)
		}
		fields[i] = Field{c.Name, kind}
	}
	return fields, nil
}

// empty reports whether a column is NULL in all rows, as far as the footer says.
func (f *File) empty(c *Column) bool {
	for i := range f.Groups {
		if g := &f.Groups[i]; g.chunks[c.leaf].nulls != int64(g.Rows) {
			return false
		}
	}
	return true
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

// Rows gives the rows [from, to) of a row group to visit, with a value for each field as Writer.Write takes it; fields
// that the file does not have are nil. The row is valid until visit returns.
func (r *Reader) Rows(ctx context.Context, group, from, to int, fields []Field, visit func(row []any) error) error {
	texts := make([]Texts, len(fields))
	values := make([][]any, len(fields))
	row := make([]any, len(fields))
	for ; from < to; from += batchRows {
		end := min(from+batchRows, to)
		for i, field := range fields {
			if err := r.Texts(ctx, group, r.file.Column(field.Name), from, end, &texts[i]); err != nil {
				return err
			}
			var err error
			if values[i], err = field.values(values[i][:0], texts[i].Values); err != nil {
				return err
			}
		}
		for n := range end - from {
			for i := range fields {
				row[i] = values[i][texts[i].Codes[n]]
			}
			if err := visit(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// OpenFile opens the file of a path and reads its footer.
func OpenFile(path string) (*os.File, *File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	var f *File
	info, err := in.Stat()
	if err == nil {
		f, err = Open(in, info.Size())
	}
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	return in, f, nil
}

// EachRow gives the rows of the row groups from one onward to visit, as Reader.Rows does.
func (f *File) EachRow(ctx context.Context, in io.ReaderAt, from int, fields []Field,
	visit func(row []any) error) error {
	r, err := f.NewReader(in)
	if err != nil {
		return err
	}
	defer r.Close()
	for g := from; g < len(f.Groups); g++ {
		if err := r.Rows(ctx, g, 0, f.Groups[g].Rows, fields, visit); err != nil {
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
	if err := check(func(column string) bool { return f.Column(column) != nil }); err != nil {
		return err
	}
	r, err := f.NewReader(in)
	if err != nil {
		return err
	}
	defer r.Close()
	texts, row := make([]Texts, len(columns)), make([]string, len(columns))
	for g := range f.Groups {
		for i, column := range columns {
			if err := r.Texts(ctx, g, f.Column(column), 0, f.Groups[g].Rows, &texts[i]); err != nil {
				return err
			}
		}
		for n := range f.Groups[g].Rows {
			for i := range texts {
				row[i] = texts[i].Values[texts[i].Codes[n]]
			}
			visit(row)
		}
	}
	return nil
}

// values converts the values of a column; the first one is NULL.
func (f Field) values(values []any, texts []string) ([]any, error) {
	values = append(values, nil)
	for _, text := range texts[1:] {
		var value any = text
		var err error
		switch f.Kind {
		case Integer:
			value, err = strconv.ParseInt(text, 10, 64)
		case Real:
			value, err = strconv.ParseFloat(text, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		values = append(values, value)
	}
	return values, nil
}

// Count returns the number of rows of a month file with a timestamp (YYYY-MM-DD HH:MM:SS.ffffff).
func Count(ctx context.Context, path, timestamp string) (rows int, err error) {
	in, f, err := OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	times, err := f.timestamps(ctx, in)
	return times[timestamp], err
}

// timestamps returns the number of rows with each timestamp.
func (f *File) timestamps(ctx context.Context, in io.ReaderAt) (map[string]int, error) {
	r, err := f.NewReader(in)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	found := map[string]int{}
	var times Texts
	for g := range f.Groups {
		if err := r.Texts(ctx, g, f.Column(snapshots.TimestampColumn), 0, f.Groups[g].Rows, &times); err != nil {
			return nil, err
		}
		for _, code := range times.Codes {
			if code > 0 {
				found[times.Values[code]]++
			}
		}
	}
	return found, nil
}
