package snapshots

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"strconv"
	"strings"
)

// fields are the texts of one row as SQL gives them, the timestamp first.
type fields struct {
	texts  [1 + columns][]byte
	buffer Row
}

// separator stands between the texts of a line. A row whose own texts hold it is read column by column.
const separator = 0x1f

// line is an expression for a row's rowid and texts as one text: a driver's call for each column takes most of the time of
// reading a row.
func (s *schema) line() string {
	return "concat(rowid, X'1F', " + strings.Join(s.columns(), ", X'1F', ") + ")"
}

// selection lists the timestamp and the columns, as text: the driver would parse the timestamp, which is slow, and would
// apply a zone that is ours to apply.
func (s *schema) selection() string {
	parts := s.columns()
	for i, column := range parts {
		parts[i] = "CAST(" + column + " AS TEXT)"
	}
	return strings.Join(parts, ", ")
}

// columns names the timestamp and the columns, NULL for those that the table lacks.
func (s *schema) columns() []string {
	names := []string{quoted(s.order[s.timestamp])}
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

// cutRowid cuts the rowid off a line. SQLite has printed it: it is a number.
func cutRowid(line []byte) (rowid int64, texts []byte) {
	number, texts, _ := bytes.Cut(line, []byte{separator})
	rowid, _ = strconv.ParseInt(string(number), 10, 64)
	return rowid, texts
}

// split takes a line over; ok is false when it does not tell where the texts end.
func (f *fields) split(line []byte) (rowid int64, ok bool) {
	rowid, rest := cutRowid(line)
	for i := range columns {
		end := bytes.IndexByte(rest, separator)
		if end < 0 {
			return rowid, false
		}
		f.texts[i], rest = rest[:end], rest[end+1:]
	}
	f.texts[columns] = rest
	return rowid, bytes.IndexByte(rest, separator) < 0
}

// read asks for the row with a rowid column by column.
func (f *fields) read(ctx context.Context, db *sql.DB, s *schema, rowid int64) error {
	var targets [1 + columns]any
	for i := range targets {
		targets[i] = &f.texts[i]
	}
	return db.QueryRowContext(ctx, "SELECT "+s.selection()+" FROM gpu_state WHERE rowid = ?", rowid).Scan(targets[:]...)
}

func (f *fields) timestamp() []byte { return f.texts[0] }

func (f *fields) row() Row {
	f.buffer = f.buffer[:0]
	for _, text := range f.texts[1:] {
		f.buffer = append(binary.AppendUvarint(f.buffer, uint64(len(text))), text...)
	}
	return f.buffer
}
