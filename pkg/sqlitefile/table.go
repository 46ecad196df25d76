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
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	QueryContext(ctx context.Context, query string, values ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, values ...any) *sql.Row
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

// expression reads a column, NULL where the table lacks it: SQLite would read its quoted name as a text.
func (t *Table) expression(column string) string {
	i := t.position(column)
	if i < 0 {
		return "NULL"
	}
	return Quoted(t.Columns[i])
}

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
	if first > last {
		return ctx.Err()
	}
	r := reader{table: t, conn: conn, row: Row{Texts: make([][]byte, len(columns))}}
	for _, column := range columns {
		r.expressions = append(r.expressions, t.expression(column))
	}
	// as one text: a driver's call for each column takes most of the time of reading a row
	statement, err := conn.PrepareContext(ctx, "SELECT concat("+t.rowid+", char(31), "+
		strings.Join(r.expressions, ", char(31), ")+
		t.SQL(") FROM "+t.name+" WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?"))
	if err != nil {
		return err
	}
	defer statement.Close()
	for first <= last {
		next, err := r.some(ctx, statement, first, last, visit)
		if errors.Is(err, errSeparator) {
			next, err = r.byColumns(ctx, next, last, visit)
		}
		if err != nil || next <= first { // behind the largest number there is none
			return err
		}
		first = next
	}
	return nil
}

// reader reads rows of a table.
type reader struct {
	table       *Table
	conn        Querier
	expressions []string
	row         Row
}

// errSeparator is the error of a row whose own texts hold the separator.
var errSeparator = errors.New("a text with the separator")

// some is one statement. It returns the number behind that of the last row, first without any. Errors: errSeparator.
func (r *reader) some(ctx context.Context, statement *sql.Stmt, first, last int64, visit func(*Row) error) (int64,
	error) {
	rows, err := statement.QueryContext(ctx, first, last, maxRows)
	if err != nil {
		return first, err
	}
	defer rows.Close()
	var line sql.RawBytes
	for rows.Next() {
		if err := rows.Scan(&line); err != nil {
			return first, err
		}
		whole := r.split(line)
		if r.row.Number < first || r.row.Number > last {
			return first, ErrCircle
		}
		if !whole {
			return first, errSeparator
		}
		first = r.row.Number + 1
		if err := visit(&r.row); err != nil {
			return first, err
		}
	}
	return first, cmp.Or(rows.Err(), ctx.Err())
}

// split takes a row as one text over; false: it does not show where the texts end.
func (r *reader) split(line []byte) bool {
	number, rest, _ := bytes.Cut(line, []byte{separator})
	r.row.Number, _ = strconv.ParseInt(string(number), 10, 64) // SQLite has printed it: it is a number
	r.row.Values = rest
	last := len(r.row.Texts) - 1
	for i := range last {
		end := bytes.IndexByte(rest, separator)
		if end < 0 {
			return false
		}
		r.row.Texts[i], rest = rest[:end], rest[end+1:]
	}
	r.row.Texts[last] = rest
	return bytes.IndexByte(rest, separator) < 0
}

// byColumns is some, column by column. It runs after the statement before it, because a second one at the same time
// would need a second connection, for which all readers of a file could wait at once.
func (r *reader) byColumns(ctx context.Context, first, last int64, visit func(*Row) error) (int64, error) {
	row := &r.row
	targets, casts := []any{&row.Number}, []string{r.table.rowid}
	for i, expression := range r.expressions {
		targets, casts = append(targets, &row.Texts[i]), append(casts, "CAST("+expression+" AS TEXT)")
	}
	rows, err := r.conn.QueryContext(ctx, "SELECT "+strings.Join(casts, ", ")+
		r.table.SQL(" FROM "+r.table.name+" WHERE rowid BETWEEN ? AND ? ORDER BY rowid LIMIT ?"), first, last, separated)
	if err != nil {
		return first, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return first, err
		}
		if row.Number < first || row.Number > last {
			return first, ErrCircle
		}
		row.join()
		first = row.Number + 1
		if err := visit(row); err != nil {
			return first, err
		}
	}
	return first, cmp.Or(rows.Err(), ctx.Err())
}

// join makes the values of a row's texts: as one text, or, if they hold the separator, as no row that is one text
// begins.
func (row *Row) join() {
	row.Values = bytes.Join(row.Texts, []byte{separator})
	if bytes.Count(row.Values, []byte{separator}) < len(row.Texts) {
		return
	}
	row.Values = bytes.Repeat([]byte{separator}, len(row.Texts)) // one more than between texts
	for _, text := range row.Texts {
		row.Values = append(binary.AppendUvarint(row.Values, uint64(len(text))), text...)
	}
}
