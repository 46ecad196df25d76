package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Append adds rows to the month file of a path, which it creates if there is none. Each row has a value for each field
// (Writer.Write). The file is replaced as a whole (files.Replace): a reader finds the old one or the new one. Row
// groups that are full stay unchanged, byte for byte; the last one is rewritten. A file whose columns lack a field, or
// hold it as another type, is written again in full.
func Append(ctx context.Context, path string, fields []Field, rows [][]any) error {
	return appendRows(ctx, path, fields, rows, GroupRows)
}

// appendRows is Append with row groups of at most the given number of rows.
func appendRows(ctx context.Context, path string, fields []Field, rows [][]any, most int) error {
	err := appendTo(ctx, path, fields, rows, most)
	if err != nil && ctx.Err() == nil { // columns of other types, or a damaged index of pages
		err = appendTo(ctx, path, fields, rows, 0)
	}
	return err
}

// appendTo copies the row groups that stay as they are with most rows, none if that is 0, and writes the others again.
func appendTo(ctx context.Context, path string, fields []Field, rows [][]any, most int) error {
	return files.Replace(ctx, path, func(out *os.File) error {
		added := Changes{Fields: fields, Rows: rows}
		old, err := OpenFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return added.write(ctx, out, nil, 0)
		}
		if err != nil {
			return err
		}
		defer old.Close()
		full := len(old.Groups)
		if last := full - 1; last >= 0 && old.Groups[last].Rows+len(rows) <= most {
			full--
		}
		if most == 0 {
			full = 0
		}
		return added.write(ctx, out, []*File{old}, full)
	})
}

// Changes are the changes to files that are written again. A column that they lack is added, one of another type
// becomes one that holds both.
type Changes struct {
	Fields []Field // the columns of added rows
	Rows   [][]any // each has a value for each field (Writer.Write)

	Column string      // some rows get another value in this column,
	Values map[int]any // by their numbers, from 0
}

// Rewrite writes the rows of files one after another into one, with the columns of all.
func Rewrite(ctx context.Context, out io.Writer, files [][]byte, c Changes) error {
	opened := make([]*File, len(files))
	for i, data := range files {
		var err error
		if opened[i], err = Open(bytes.NewReader(data), int64(len(data))); err != nil {
			return err
		}
	}
	return c.write(ctx, out, opened, 0)
}

// Encode returns a file of rows, each with a value for each field (Writer.Write).
func Encode(fields []Field, rows [][]any) ([]byte, error) {
	var out bytes.Buffer
	err := Rewrite(context.Background(), &out, nil, Changes{Fields: fields, Rows: rows})
	return out.Bytes(), err
}

// write writes files again, apart from the first row groups of each, which are copied as they are.
func (c Changes) write(ctx context.Context, out io.Writer, files []*File, copied int) error {
	var union []Field
	for _, f := range files {
		there, err := f.Fields()
		if err != nil {
			return fmt.Errorf("%w, which would be lost: move the file away, and a new one is begun", err)
		}
		union = unite(union, there)
	}
	union = unite(union, c.Fields)
	w, n := NewWriter(out, union), -1
	for _, f := range files {
		if err := w.copyGroups(ctx, f, copied); err != nil {
			return err
		}
		err := f.EachRow(ctx, copied, union, func(row []any) error {
			n++
			if value, is := c.Values[n]; is {
				i := position(union, c.Column)
				row[i] = union[i].coerce(value)
			}
			return w.Write(row)
		})
		if err != nil {
			return err
		}
	}
	if err := writeRows(w, c.Fields, c.Rows); err != nil {
		return err
	}
	return w.Close()
}

// position returns the place of a field, -1 if there is none.
func position(fields []Field, name string) int {
	return slices.IndexFunc(fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// writeRows writes rows of some fields into a file of others.
func writeRows(w *Writer, fields []Field, rows [][]any) error {
	positions := make([]int, len(w.fields))
	for i, f := range w.fields {
		positions[i] = position(fields, f.Name)
	}
	row := make([]any, len(w.fields))
	for _, r := range rows {
		for i, p := range positions {
			if row[i] = nil; p >= 0 {
				row[i] = w.fields[i].coerce(r[p])
			}
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// coerce returns a number as text if the column holds texts.
func (f Field) coerce(v any) any {
	if f.Kind == Text && v != nil {
		return fmt.Sprint(v)
	}
	return v
}

// unite returns the fields of a file with those to be added, each in a kind that holds both.
func unite(there, added []Field) []Field {
	union := slices.Clone(there)
	for _, f := range added {
		i := position(there, f.Name)
		switch {
		case i < 0:
			union = append(union, f)
		case union[i].Kind == f.Kind:
		case union[i].Kind == Integer && f.Kind == Real || union[i].Kind == Real && f.Kind == Integer:
			union[i].Kind = Real
		default:
			union[i].Kind = Text
		}
	}
	return union
}

// Fields are the file's columns in its order. Errors: one has a form that could not be written again.
func (f *File) Fields() ([]Field, error) {
	if f.leaves != len(f.Columns) {
		return nil, fmt.Errorf("it has a column of lists or of other nested values")
	}
	fields, usual := make([]Field, len(f.Columns)), slices.Concat(Schema, QueueSchema)
	for i := range f.Columns {
		c := &f.Columns[i]
		kind, known := kinds[c.Kind]
		switch place := position(usual, c.Name); {
		case f.empty(c) && place >= 0: // writers give it any type
			kind = usual[place].Kind
		case f.empty(c):
			kind = Text
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
