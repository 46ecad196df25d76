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
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// Result is the result of a conversion.
type Result struct {
	Path  string   // the file that was written
	Rows  int      // that both files hold, in the same order
	Notes []string // columns that hold other values than the collector writes; what was set aside
}

// layout is the table of a month file.
type layout struct {
	table   string
	schema  []parquet.Field
	indexes []string // the columns that get an index when it is written
}

var (
	snapshotLayout = layout{"gpu_state", parquet.Schema, []string{"timestamp"}}
	queueLayout    = layout{"job_pressure", parquet.QueueSchema, []string{"last_seen", "first_seen"}}
)

// File converts a month file into a file of the other format in a directory, which may be its own. zone is the zone of
// the local times in queue files of the older layout; UTC if nil. Errors: the file exists already, or came meanwhile,
// the source cannot be read in full, the output differs from it. No file is left then.
func File(ctx context.Context, path, directory string, zone *localtime.Zone) (Result, error) {
	name := filepath.Base(path)
	base, format, _ := strings.Cut(name, ".")
	l, zone := snapshotLayout, cmp.Or(zone, localtime.UTC)
	if strings.HasPrefix(name, queueLayout.table) {
		l = queueLayout
	}
	other, convert := base+".parquet", l.toParquet
	switch format {
	case "db":
	case "parquet":
		other, convert = base+".db", l.toSQLite
	default:
		return Result{}, pool.BadQuery("%s is not a month file: gpu_state_YYYY-MM or job_pressure_YYYY-MM, .db or "+
			".parquet", name)
	}
	result := Result{Path: filepath.Join(directory, other)}
	note, err := files.Create(ctx, result.Path, func(out *os.File) (err error) {
		result.Rows, result.Notes, err = convert(ctx, path, out, zone)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrExist):
		return Result{}, pool.SourceError("%s exists already: move it away, or give another directory", result.Path)
	case err != nil:
		return Result{}, pool.SourceError("converting %s: %w", name, err)
	case note != "":
		result.Notes = append(result.Notes, note)
	}
	return result, nil
}

// source is a month file of SQLite, as it is at one moment.
type source struct {
	layout
	db *sql.DB
	tx *sql.Tx
}

func (l layout) open(ctx context.Context, path string) (source, error) {
	db, err := sql.Open("sqlite", sqlitefile.URI(path, "mode=ro", sqlitefile.Wait()))
	if err != nil {
		return source{}, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return source{}, errors.Join(err, db.Close())
	}
	return source{l, db, tx}, nil
}

func (s source) close() {
	_ = s.tx.Rollback() // nothing was written
	_ = s.db.Close()
}

// records yields the values of rows, each valid until the next one; an error ends them.
type records = iter.Seq2[[]any, error]

// rows reads columns in the order of the file, each as its kind is written. The driver would parse a timestamp.
func (s source) rows(ctx context.Context, fields []parquet.Field) records {
	expressions := make([]string, len(fields))
	for i, f := range fields {
		kind := map[parquet.Kind]string{parquet.Integer: "INTEGER", parquet.Real: "REAL"}[f.Kind]
		expressions[i] = "CAST(" + sqlitefile.Quoted(f.Name) + " AS " + cmp.Or(kind, "TEXT") + ")"
	}
	return s.query(ctx, len(fields), "SELECT "+strings.Join(expressions, ", ")+" FROM "+s.table+" ORDER BY rowid")
}

// query yields the rows of a statement with a number of columns.
func (s source) query(ctx context.Context, columns int, statement string) records {
	return func(yield func([]any, error) bool) {
		values, targets := make([]any, columns), make([]any, columns)
		for i := range values {
			targets[i] = &values[i]
		}
		rows, err := s.tx.QueryContext(ctx, statement)
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			err := rows.Scan(targets...)
			if !yield(values, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// compare reads rows and the Parquet file of them from the beginning, and returns how many both hold.
func compare(ctx context.Context, rows records, fields []parquet.Field, path string) (n int, err error) {
	f, err := parquet.OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	next, stop := iter.Pull2(rows)
	defer stop()
	err = f.EachRow(ctx, 0, fields, func(row []any) error {
		values, err, more := next()
		if err != nil || !more {
			return cmp.Or(err, errors.New("the SQLite file has fewer rows"))
		}
		n++
		for i, field := range fields {
			if !same(row[i], values[i], field.Kind) {
				return fmt.Errorf("row %d, column %s: %v became %v", n, field.Name, values[i], row[i])
			}
		}
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("comparing: %w", err)
	}
	if _, err, more := next(); more {
		return n, errors.Join(err, fmt.Errorf("comparing: the Parquet file ends after %d rows", n))
	}
	return n, nil
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
	if len(moment) == len(time.DateTime) {
		moment += "."
	}
	return moment + strings.Repeat("0", max(0, len("2006-01-02 15:04:05.000000")-len(moment)))
}
