package sqlitefile

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Querier is a connection, or a pool of them.
type Querier interface {
	QueryContext(ctx context.Context, query string, values ...any) (*sql.Rows, error)
}

// Table is a table whose rows have numbers.
type Table struct {
	Columns []string // in order
	name    string
	rowid   string // a name of the number that SQLite gives each row: a column of its name hides it
}

// ErrNoTable says that a file lacks a table.
var ErrNoTable = errors.New("no such table")

// FindTable returns a file's table of a name. Errors: ErrNoTable; a NoRowid, where rows have no number.
func FindTable(ctx context.Context, conn Querier, name string) (*Table, error) {
	rows, err := conn.QueryContext(ctx, "SELECT c.name, t.type, t.wr FROM pragma_table_list AS t, "+
		"pragma_table_xinfo(t.name) AS c WHERE t.schema = 'main' AND t.name = ? COLLATE NOCASE ORDER BY c.cid", name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	t := &Table{name: name}
	var kind string
	var without bool
	for rows.Next() {
		var column string
		if err := rows.Scan(&column, &kind, &without); err != nil {
			return nil, err
		}
		t.Columns = append(t.Columns, column)
	}
	switch {
	case rows.Err() != nil:
		return nil, rows.Err()
	case kind == "":
		return nil, ErrNoTable
	case kind != "table":
		return nil, &NoRowid{name, "a " + kind}
	case without:
		return nil, &NoRowid{name, "a table WITHOUT ROWID"}
	}
	for _, rowid := range []string{"rowid", "_rowid_", "oid"} {
		if !t.Has(rowid) {
			t.rowid = rowid
			return t, nil
		}
	}
	return nil, &NoRowid{name, "a table with columns rowid, _rowid_ and oid"}
}

// NoRowid is the error of a table whose rows have no number by which they can be read in parts.
type NoRowid struct{ table, kind string }

func (e *NoRowid) Error() string {
	return fmt.Sprintf("%s is %s, which is not supported: copy it into an ordinary table, `CREATE TABLE copy AS SELECT * "+
		"FROM %s`, and give that one its name", e.table, e.kind, e.table)
}

func (t *Table) position(column string) int {
	return slices.IndexFunc(t.Columns, func(c string) bool { return strings.EqualFold(c, column) })
}

// Has reports whether the table has a column.
func (t *Table) Has(column string) bool { return t.position(column) >= 0 }

// SQL is a query in which rowid stands for the number of a row.
func (t *Table) SQL(query string) string { return strings.ReplaceAll(query, "rowid", t.rowid) }

// Quoted is a column's name as queries write it.
func Quoted(column string) string { return `"` + strings.ReplaceAll(column, `"`, `""`) + `"` }

// Row is a row as some of its columns, valid until the next one is read.
type Row struct {
	Number int64
	Texts  [][]byte // empty for NULL, and for columns that the table lacks
	Values []byte   // all texts, as no other texts give them
}

// maxRows bounds a statement, so that neither a checkpoint nor a writer waits for a reader.
const maxRows = 20_000

// separator separates the texts of a row that is read as one text. Where texts themselves hold it, rows are read column
// by column, this many at once.
const (
	separator = 0x1f
	separated = 1000
)

// Read gives the rows with the numbers from first to last to visit, ascending, as texts, because the driver would parse
// times, which is slow, and would convert them to the wrong zone. Returns visit's errors too.
func (t *Table) Read(ctx context.Context, conn Querier, columns []string, first, last int64,
	visit func(*Row) error) error {
	r := reader{conn: conn, next: first, last: last, visit: visit, row: Row{Texts: make([][]byte, len(columns))}}
	targets := []any{&r.row.Number}
	var expressions, casts []string
	for i, column := range columns {
		expression := "NULL" // where the table lacks it, SQLite would read its quoted name as a text
		if place := t.position(column); place >= 0 {
			expression = Quoted(t.Columns[place])
		}
		expressions, casts = append(expressions, expression), append(casts, "CAST("+expression+" AS TEXT)")
		targets = append(targets, &r.row.Texts[i])
	}
	from := t.SQL(" FROM " + t.name + " WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?")
	// as one text: a driver's call for each column takes most of the time of reading a row
	whole := "SELECT concat(" + t.rowid + ", char(31), " + strings.Join(expressions, ", char(31), ") + ")" + from
	byColumns := "SELECT " + t.rowid + ", " + strings.Join(casts, ", ") + from
	for r.next <= last {
		begin := r.next
		var line sql.RawBytes
		err := r.some(ctx, whole, maxRows, []any{&line}, func() error { return r.split(line) })
		if errors.Is(err, errSeparator) {
			err = r.some(ctx, byColumns, separated, targets, r.join)
		}
		if err != nil || r.next <= begin { // behind the largest number there is none
			return err
		}
	}
	return ctx.Err()
}

// reader reads rows of a table.
type reader struct {
	conn       Querier
	next, last int64 // the numbers of the rows that are still to be read
	visit      func(*Row) error
	row        Row
}

// errSeparator is the error of a row whose own texts hold the separator.
var errSeparator = errors.New("a text with the separator")

// some gives the rows of one statement, which ends before the next one begins: a second one at the same time would need
// a second connection, for which all readers of a file could wait at once. take makes a row of the scanned values.
func (r *reader) some(ctx context.Context, query string, most int, targets []any, take func() error) error {
	rows, err := r.conn.QueryContext(ctx, query, r.next, r.last, most)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := take(); err != nil {
			return err
		}
		if r.row.Number < r.next || r.row.Number > r.last {
			return ErrCircle
		}
		r.next = r.row.Number + 1
		if err := r.visit(&r.row); err != nil {
			return err
		}
	}
	return cmp.Or(rows.Err(), ctx.Err())
}

// split divides a row that was read as one text. Errors: errSeparator.
func (r *reader) split(line []byte) error {
	number, rest, _ := bytes.Cut(line, []byte{separator})
	r.row.Number, _ = strconv.ParseInt(string(number), 10, 64) // SQLite has printed it: it is a number
	r.row.Values = rest
	last := len(r.row.Texts) - 1
	if bytes.Count(rest, []byte{separator}) != last {
		return errSeparator
	}
	for i := range last {
		r.row.Texts[i], rest, _ = bytes.Cut(rest, []byte{separator})
	}
	r.row.Texts[last] = rest
	return nil
}

// join makes one text of a row's values: separated, or, if they hold the separator, in a form that no other row begins
// with.
func (r *reader) join() error {
	row := &r.row
	row.Values = bytes.Join(row.Texts, []byte{separator})
	if bytes.Count(row.Values, []byte{separator}) < len(row.Texts) {
		return nil
	}
	row.Values = bytes.Repeat([]byte{separator}, len(row.Texts)) // one more than between texts
	for _, text := range row.Texts {
		row.Values = append(binary.AppendUvarint(row.Values, uint64(len(text))), text...)
	}
	return nil
}
