// Package convert turns month files of SQLite into Parquet and back: of snapshots (gpu_state) and of queues
// (job_pressure). The output is read again and compared with the source row by row before the file gets its name.
package convert

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Result is the result of a conversion.
type Result struct {
	Path  string   // of the file that was written
	Rows  int      // that both files hold, in the same order
	Notes []string // columns that hold other values than the collector writes
}

// layout is the table of a month file.
type layout struct {
	table   string
	schema  []parquet.Field
	indexes []string // of columns, when it is written
}

var (
	snapshotLayout = layout{"gpu_state", parquet.Schema, []string{"timestamp"}}
	queueLayout    = layout{"job_pressure", parquet.QueueSchema, []string{"last_seen", "first_seen"}}
)

// File converts a month file into a file of the other format in a directory, which may be its own. zone is the zone of
// the local times in queue files of the older layout; UTC if nil. Errors: the file exists already, the source cannot be
// read in full, the output differs from it. No file is left then.
func File(ctx context.Context, path, directory string, zone *localtime.Zone) (Result, error) {
	name := filepath.Base(path)
	base, format, _ := strings.Cut(name, ".")
	l, zone := snapshotLayout, cmp.Or(zone, localtime.UTC)
	if strings.HasPrefix(name, queueLayout.table) {
		l = queueLayout
	}
	var other string
	var convert func(ctx context.Context, from, to string) (Result, error)
	switch format {
	case "db":
		other = base + ".parquet"
		convert = func(ctx context.Context, from, to string) (Result, error) { return l.toParquet(ctx, from, to, zone) }
	case "parquet":
		other, convert = base+".db", l.toSQLite
	default:
		return Result{}, pool.BadQuery("%s is not a month file: gpu_state_YYYY-MM or job_pressure_YYYY-MM, .db or "+
			".parquet", name)
	}
	to := filepath.Join(directory, other)
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return Result{}, pool.SourceError("%s exists already: move it away, or give another directory", to)
	}
	temporary := filepath.Join(directory, "."+other+".tmp")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Result{}, pool.SourceError("converting %s: %w", name, err)
	}
	result, err := convert(ctx, path, temporary)
	if err == nil {
		err = os.Rename(temporary, to)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may not exist
		return Result{}, pool.SourceError("converting %s: %w", name, err)
	}
	result.Path = to
	return result, nil
}

// column is a column of a month file.
type column struct {
	parquet.Field
	expression string // that reads it from the table
}

// openSource opens a month file of SQLite for reading, as it is at one moment.
func openSource(ctx context.Context, path string) (*sql.DB, *sql.Tx, error) {
	db, err := sql.Open("sqlite", sqlitefile.URI(path, "mode=ro", sqlitefile.Wait()))
	if err != nil {
		return nil, nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, tx, nil
}

// selection reads the columns, row by row in the order of the file.
func (l layout) selection(columns []column) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = c.expression
	}
	return "SELECT " + strings.Join(parts, ", ") + " FROM " + l.table + " ORDER BY rowid"
}

// cursor gives the rows of a query one after another.
type cursor struct {
	rows   *sql.Rows
	values []any
	into   []any
}

func (l layout) newCursor(ctx context.Context, tx *sql.Tx, columns []column) (*cursor, error) {
	rows, err := tx.QueryContext(ctx, l.selection(columns))
	if err != nil {
		return nil, err
	}
	c := &cursor{rows: rows, values: make([]any, len(columns)), into: make([]any, len(columns))}
	for i := range c.values {
		c.into[i] = &c.values[i]
	}
	return c, nil
}

// next reads a row into values; false: there is none, or an error that close returns.
func (c *cursor) next() (bool, error) {
	if !c.rows.Next() {
		return false, c.rows.Err()
	}
	return true, c.rows.Scan(c.into...)
}

// compare reads both files from the beginning and returns how many rows they hold.
func (l layout) compare(ctx context.Context, tx *sql.Tx, columns []column, path string) (rows int, err error) {
	f, err := parquet.OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	c, err := l.newCursor(ctx, tx, columns)
	if err != nil {
		return 0, err
	}
	defer c.rows.Close()
	err = f.EachRow(ctx, 0, fieldsOf(columns), func(row []any) error {
		if there, err := c.next(); err != nil || !there {
			return errors.Join(err, errors.New("the SQLite file has fewer rows"))
		}
		rows++
		for i := range columns {
			if !same(row[i], c.values[i], columns[i].Kind) {
				return fmt.Errorf("row %d, column %s: %v became %v", rows, columns[i].Name, c.values[i], row[i])
			}
		}
		return nil
	})
	if err != nil {
		return rows, fmt.Errorf("comparing: %w", err)
	}
	if more, err := c.next(); more || err != nil {
		return rows, errors.Join(err, fmt.Errorf("comparing: the Parquet file ends after %d rows", rows))
	}
	return rows, nil
}

// same reports whether two values of a column are equal; a time may lack its fraction.
func same(parquetValue, sqliteValue any, kind parquet.Kind) bool {
	a, aReal := parquetValue.(float64)
	b, bReal := sqliteValue.(float64)
	if aReal && bReal {
		return a == b || math.IsNaN(a) && math.IsNaN(b)
	}
	if text, ok := sqliteValue.(string); ok && kind == parquet.Moment {
		return parquetValue == canonical(text)
	}
	return parquetValue == sqliteValue
}

// canonical fills up the fraction of a time.
func canonical(moment string) string {
	const whole, full = "2006-01-02 15:04:05", "2006-01-02 15:04:05.000000"
	if len(moment) == len(whole) {
		moment += "."
	}
	if n := len(full) - len(moment); n > 0 {
		moment += strings.Repeat("0", n)
	}
	return moment
}

func fieldsOf(columns []column) []parquet.Field {
	fields := make([]parquet.Field, len(columns))
	for i, c := range columns {
		fields[i] = c.Field
	}
	return fields
}
