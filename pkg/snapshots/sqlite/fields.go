package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// fields are the texts of one row as SQL gives them, by place.
type fields struct {
	texts  [places][]byte
	line   []byte // the rowid and all of them, as no other row has them
	buffer snapshots.Row
}

// separator separates the texts of a line. A row whose own texts hold it is read column by column.
const separator = 0x1f

// line is an expression for a row's rowid and texts as one text: a driver's call for each column takes most of the time
// of reading a row.
func (s *schema) line() string {
	return "concat(" + s.rowid + ", char(31), " + strings.Join(s.columns(), ", char(31), ") + ")"
}

// selection lists the expressions to read, as text: the driver would parse the timestamp, which is slow, and would
// apply a zone that is ours to apply.
func (s *schema) selection() string {
	parts := s.columns()
	for i, column := range parts {
		parts[i] = "CAST(" + column + " AS TEXT)"
	}
	return strings.Join(parts, ", ")
}

// columns names the columns to read, by place, NULL for those that the table lacks.
func (s *schema) columns() (names []string) {
	for _, position := range s.positions {
		if position < 0 {
			names = append(names, "NULL")
		} else {
			names = append(names, quoted(s.order[position]))
		}
	}
	return names
}

func quoted(column string) string { return `"` + strings.ReplaceAll(column, `"`, `""`) + `"` }

// split takes a line over; ok is false if it does not show where the texts end.
func (f *fields) split(line []byte) (rowid int64, ok bool) {
	f.line = line
	number, rest, _ := bytes.Cut(line, []byte{separator})
	rowid, _ = strconv.ParseInt(string(number), 10, 64) // SQLite has printed it: it is a number
	for i := range places - 1 {
		end := bytes.IndexByte(rest, separator)
		if end < 0 {
			return rowid, false
		}
		f.texts[i], rest = rest[:end], rest[end+1:]
	}
	f.texts[places-1] = rest
	return rowid, bytes.IndexByte(rest, separator) < 0
}

// read asks for the row with a rowid column by column.
func (f *fields) read(ctx context.Context, db *sql.DB, s *schema, rowid int64) error {
	targets := make([]any, places)
	for i := range targets {
		targets[i] = &f.texts[i]
	}
	query := "SELECT " + s.selection() + " FROM gpu_state WHERE " + s.rowid + " = ?"
	err := db.QueryRowContext(ctx, query, rowid).Scan(targets...) //nolint:gosec // columns are quoted by the schema
	// no line that SQL gives begins so
	f.line = binary.AppendVarint([]byte{separator}, rowid)
	for _, text := range f.texts {
		f.line = append(binary.AppendUvarint(f.line, uint64(len(text))), text...)
	}
	return err
}

func (f *fields) timestamp() []byte { return f.texts[timestampPlace] }

func (f *fields) usage() float64 { return usageOf(f.texts[usagePlace]) }

// notMeasured is the usage of a row without one.
var notMeasured = math.NaN()

// usageOf reads a number, NaN if it is none.
func usageOf(text []byte) float64 {
	value, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return notMeasured
	}
	return value
}

func (f *fields) row() snapshots.Row {
	f.buffer = f.buffer[:0]
	for _, text := range f.texts[firstPlace:usagePlace] {
		f.buffer = append(binary.AppendUvarint(f.buffer, uint64(len(text))), text...)
	}
	return f.buffer
}
