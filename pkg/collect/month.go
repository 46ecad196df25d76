package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/objects"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// snapshot is a pool's slots at one time.
type snapshot struct {
	timestamp string // YYYY-MM-DD HH:MM:SS.ffffff in the collector's local time
	slotList
}

// rows are the rows of all slots.
func (s snapshot) rows() (all []row) {
	for _, slot := range s.slots {
		all = append(all, slot.slotRows(s.timestamp, s.models)...)
	}
	return all
}

// countSQLite counts the rows of a snapshot.
func countSQLite(ctx context.Context, path, timestamp string) (rows int, err error) {
	db, err := open(ctx, path)
	if err != nil {
		return 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT count(*) FROM gpu_state WHERE timestamp = ?", timestamp).Scan(&rows)
	return rows, errors.Join(err, db.Close())
}

// addSQLite appends the snapshot to a month file in one transaction.
func addSQLite(ctx context.Context, path string, s snapshot) (rows int, note string, err error) {
	return snapshotLayout.write(ctx, path, func(ctx context.Context, tx *sql.Tx) (int, error) {
		return snapshotLayout.insert(ctx, tx, s.rows())
	})
}

// layout is the table of a month file.
type layout struct {
	table   string
	columns []column
	indexes string // the SQL that creates the missing ones
}

var (
	snapshotLayout = layout{"gpu_state", columns,
		"CREATE INDEX IF NOT EXISTS gpu_state_timestamp ON gpu_state (timestamp)"}
	queueLayout = layout{"job_pressure", pressureColumns,
		"CREATE INDEX IF NOT EXISTS idx_last_seen ON job_pressure (last_seen); " +
			"CREATE INDEX IF NOT EXISTS idx_first_seen ON job_pressure (first_seen)"}
)

// write writes rows to a month file in one transaction, and returns their number. It makes the file, and the missing
// parts of its table. note describes what was set aside, and a failure after the commit, which leaves the rows valid.
func (l layout) write(ctx context.Context, path string, write func(context.Context, *sql.Tx) (int, error)) (rows int,
	note string, err error) {
	note, err = createFile(ctx, path, l.prepare)
	if err != nil {
		return 0, "", fmt.Errorf("creating it: %w", err)
	}
	db, err := open(ctx, path)
	if err != nil {
		return 0, "", err
	}
	if err = keepLog(ctx, db); err == nil {
		err = inTransaction(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			if err := l.prepare(ctx, tx); err != nil {
				return err
			}
			rows, err = write(ctx, tx)
			return err
		})
	}
	if err != nil {
		return 0, "", errors.Join(err, db.Close())
	}
	// The main file is complete then, for those who copy it. A reader can prevent this; the next run does it.
	_, checkpoint := db.ExecContext(context.WithoutCancel(ctx),
		"PRAGMA busy_timeout = 1000; PRAGMA wal_checkpoint(TRUNCATE)")
	if err := errors.Join(checkpoint, db.Close()); err != nil {
		note = joined(note, fmt.Sprintf("%s was written, but closing it failed: %v", filepath.Base(path), err))
	}
	return rows, note, nil
}

func inTransaction(ctx context.Context, db *sql.DB, do func(context.Context, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// createFile makes a file of SQLite if there is none. It appears with its table, so that no reader ever finds it
// without. note says what was set aside.
func createFile(ctx context.Context, path string, prepare func(context.Context, *sql.Tx) error) (note string,
	err error) {
	note, err = files.Create(ctx, path, func(out *os.File) error {
		db, err := open(ctx, out.Name())
		if err != nil {
			return err
		}
		return errors.Join(inTransaction(ctx, db, prepare), db.Close())
	})
	if errors.Is(err, fs.ErrExist) { // there is one already, or another program was faster
		err = nil
	}
	return note, err
}

// open opens a file for writing, in WAL mode, in which readers can continue while it is written.
func open(ctx context.Context, path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", sqlitefile.URI(path, sqlitefile.Wait(), sqlitefile.Pragma("journal_mode", "WAL"),
		sqlitefile.Pragma("synchronous", "FULL"), "_txlock=immediate"))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare creates the missing parts of the table: all of it, or columns that an older collector did not have. A queue
// file of the older layout is not changed, and an error.
func (l layout) prepare(ctx context.Context, tx *sql.Tx) error {
	definitions := make([]string, len(l.columns))
	for i, c := range l.columns {
		definitions[i] = fmt.Sprintf("%q %s", c.name, c.affinity)
	}
	var changes []string
	there, err := sqlitefile.FindTable(ctx, tx, l.table)
	switch {
	case errors.Is(err, sqlitefile.ErrNoTable):
		changes = append(changes, "CREATE TABLE "+l.table+" ("+strings.Join(definitions, ", ")+")")
	case err != nil:
		return err
	case l.table == queueLayout.table && there.Has("timestamp"):
		return errors.New("it has the older layout, with a row for each poll: convert it with `gpureports convert`, and " +
			"move it away")
	default:
		for i, c := range l.columns {
			if !there.Has(c.name) {
				changes = append(changes, "ALTER TABLE "+l.table+" ADD COLUMN "+definitions[i])
			}
		}
	}
	_, err = tx.ExecContext(ctx, strings.Join(append(changes, l.indexes), "; "))
	return err
}

// keepLog leaves the -wal and -shm files in place, because a reader without the right to write to the directory could
// not create them, and cannot read without them.
func keepLog(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driver any) error {
		_, err := driver.(sqlite.FileControl).FileControlPersistWAL("main", 1)
		return err
	})
}

// insert inserts rows and returns their number.
func (l layout) insert(ctx context.Context, tx *sql.Tx, rows []row) (n int, err error) {
	names := make([]string, len(l.columns))
	for i, c := range l.columns {
		names[i] = c.name
	}
	statement, err := tx.PrepareContext(ctx, "INSERT INTO "+l.table+" ("+strings.Join(names, ", ")+") VALUES (?"+
		strings.Repeat(",?", len(names)-1)+")")
	if err != nil {
		return 0, err
	}
	defer statement.Close()
	for _, row := range rows {
		values := row.in(names)
		if _, err := statement.ExecContext(ctx, values...); err != nil {
			return 0, fmt.Errorf("%v: %w", values[0], err)
		}
	}
	return len(rows), nil
}

// format is a format of month files.
type format struct {
	extension string
	// count returns the rows of a snapshot in a file that exists.
	count func(ctx context.Context, path, timestamp string) (int, error)
	// add appends a snapshot to a file, which it creates if there is none, and returns its rows: all of them, or none.
	// note describes what was set aside, and a failure after they were written.
	add func(ctx context.Context, path string, s snapshot) (rows int, note string, err error)
	// poll writes a poll of the queues into a file, which it creates if there is none. begun is the number of new rows.
	poll func(ctx context.Context, path string, p *queuePoll) (begun int, note string, err error)
}

// formats by their name on the command line.
var formats = map[string]format{
	"sqlite":  {"db", countSQLite, addSQLite, pollSQLite},
	"parquet": {"parquet", parquet.Count, addParquet, pollParquet},
}

// rowsOf counts the rows of a snapshot in the files of all formats and in the bucket, 0 if it was not written.
func (o Options) rowsOf(ctx context.Context, timestamp string) (rows int, err error) {
	for _, f := range formats {
		path := filepath.Join(o.SnapshotDir, snapshots.MonthFile(timestamp[:len("2026-07")], f.extension))
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		n, err := f.count(ctx, path, timestamp)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	if rows == 0 && o.bucket != nil {
		return objects.CountSnapshot(ctx, o.bucket, timestamp)
	}
	return rows, nil
}

// inFields returns rows as Parquet files take them, with a value for each field.
func inFields(fields []parquet.Field, rows []row) (all [][]any) {
	columns := make([]string, len(fields))
	for i, f := range fields {
		columns[i] = f.Name
	}
	for _, r := range rows {
		all = append(all, r.in(columns))
	}
	return all
}

// addParquet appends the snapshot to a month file, which is replaced as a whole.
func addParquet(ctx context.Context, path string, s snapshot) (n int, note string, err error) {
	rows := inFields(parquet.Schema, s.rows())
	return len(rows), "", parquet.Append(ctx, path, parquet.Schema, rows)
}

// writeObject puts the snapshot into the bucket, and merges the days before it. note describes a failure to merge.
func (s snapshot) writeObject(ctx context.Context, b *bucket.Bucket, at time.Time) (rows int, note string, err error) {
	all := inFields(parquet.Schema, s.rows())
	if err := objects.PutSnapshot(ctx, b, at, s.timestamp, all); err != nil {
		return 0, "", err
	}
	if _, err := objects.Merge(ctx, b, s.timestamp[:len("2026-07-01")]); err != nil {
		note = err.Error() + " (the next run continues with it)"
	}
	return len(all), note, nil
}
