package parquet

import (
	"bytes"
	"context"
	"io"
)

// Join writes the rows of files one after another into one, with the columns of all.
func Join(ctx context.Context, out io.Writer, files ...[]byte) error {
	var fields []Field
	opened := make([]*File, len(files))
	for i, data := range files {
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		there, err := f.Fields()
		if err != nil {
			return err
		}
		opened[i], fields = f, unite(fields, there)
	}
	return writeAll(out, fields, func(w *Writer) error {
		for i, f := range opened {
			if err := f.EachRow(ctx, bytes.NewReader(files[i]), 0, fields, w.Write); err != nil {
				return err
			}
		}
		return nil
	})
}

// Encode returns a file of rows, each with a value for each field (Writer.Write).
func Encode(fields []Field, rows [][]any) ([]byte, error) {
	var out bytes.Buffer
	err := writeAll(&out, fields, func(w *Writer) error { return writeRows(w, fields, fields, rows) })
	return out.Bytes(), err
}

// Timestamps returns the timestamps of a file's rows and how many rows have each, as the collector writes them.
func Timestamps(ctx context.Context, in io.ReaderAt, size int64) (map[string]int, error) {
	f, err := Open(in, size)
	if err != nil {
		return nil, err
	}
	if err := complete(f); err != nil {
		return nil, err
	}
	return f.timestamps(ctx, in)
}
