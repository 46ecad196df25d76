package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// snapshot is a pool's slots at one time.
type snapshot struct {
	timestamp string // YYYY-MM-DD HH:MM:SS.ffffff in the collector's local time
	slotList
}

// rows yields the rows of all slots.
func (s snapshot) rows(yield func(row) bool) {
	for _, slot := range s.slots {
		for _, row := range slot.slotRows(s.timestamp, s.models) {
			if !yield(row) {
				return
			}
		}
	}
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
	note, err = writeSQLite(ctx, path, prepareTable, func(tx *sql.Tx) error {
		rows, err = insert(ctx, tx, "gpu_state", columns, s.rows)
		return err
	})
	return rows, note, err
}

// writeSQLite writes to a month file in one transaction. It makes the file if there is none, and the missing parts of
// its table. note describes what was set aside, and a failure after the commit, which leaves the rows valid.
func writeSQLite(ctx context.Context, path string, prepare func(context.Context, *sql.DB) error,
	write func(*sql.Tx) error) (note string, err error) {
	note, err = createFile(ctx, path, prepare)
	if err != nil {
		return "", fmt.Errorf("creating it: %w", err)
	}
	db, err := open(ctx, path)
	if err != nil {
		return "", err
	}
	if err = keepLog(ctx, db); err == nil {
		err = prepare(ctx, db)
	}
	if err == nil {
		err = inTransaction(ctx, db, write)
	}
	if err != nil {
		return "", errors.Join(err, db.Close())
	}
	// The main file is complete then, for those who copy it. A reader can prevent this; the next run does it.
	_, checkpoint := db.ExecContext(context.WithoutCancel(ctx),
		"PRAGMA busy_timeout = 1000; PRAGMA wal_checkpoint(TRUNCATE)")
	if err := errors.Join(checkpoint, db.Close()); err != nil {
		note = joined(note, fmt.Sprintf("%s was written, but closing it failed: %v", filepath.Base(path), err))
	}
	return note, nil
}

func inTransaction(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// createFile makes a file of SQLite if there is none. It appears with its table, so that no reader ever finds it
// without. note says what was set aside.
func createFile(ctx context.Context, path string, prepare func(context.Context, *sql.DB) error) (note string,
	err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	note, err = files.Create(ctx, path, func(out *os.File) error {
		db, err := open(ctx, out.Name())
		if err != nil {
			return err
		}
		return errors.Join(prepare(ctx, db), db.Close())
	})
	if errors.Is(err, fs.ErrExist) { // another program was faster
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

// prepareTable creates the missing parts of gpu_state: all of it, or columns that an older collector did not have.
func prepareTable(ctx context.Context, db *sql.DB) error {
	return prepareColumns(ctx, db, "gpu_state", columns,
		"CREATE INDEX IF NOT EXISTS gpu_state_timestamp ON gpu_state (timestamp)")
}

// prepareColumns creates the missing parts of a table: all of it, or some columns. Then it executes statements.
func prepareColumns(ctx context.Context, db *sql.DB, table string, columns []column, statements ...string) error {
	return inTransaction(ctx, db, func(tx *sql.Tx) error {
		var changes []string
		there, err := sqlitefile.FindTable(ctx, tx, table)
		switch {
		case errors.Is(err, sqlitefile.ErrNoTable):
			changes = append(changes, "CREATE TABLE "+table+" ("+definitions(columns)+")")
		case err != nil:
			return err
		default:
			for _, c := range columns {
				if !there.Has(c.name) {
					changes = append(changes, "ALTER TABLE "+table+" ADD COLUMN "+definitions([]column{c}))
				}
			}
		}
		_, err = tx.ExecContext(ctx, strings.Join(append(changes, statements...), "; "))
		return err
	})
}

func definitions(columns []column) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = fmt.Sprintf("%q %s", c.name, c.affinity)
	}
	return strings.Join(parts, ", ")
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
		control, ok := driver.(sqlite.FileControl)
		if !ok {
			return errors.New("the SQLite driver lacks file controls")
		}
		_, err := control.FileControlPersistWAL("main", 1)
		return err
	})
}

// insert inserts rows and returns their number.
func insert(ctx context.Context, tx *sql.Tx, table string, columns []column, rows iter.Seq[row]) (n int, err error) {
	names, quoted := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		names[i], quoted[i] = c.name, strconv.Quote(c.name)
	}
	statement, err := tx.PrepareContext(ctx, "INSERT INTO "+table+" ("+strings.Join(quoted, ", ")+") VALUES (?"+
		strings.Repeat(",?", len(columns)-1)+")")
	if err != nil {
		return 0, err
	}
	defer statement.Close()
	for row := range rows {
		values := row.in(names)
		if _, err := statement.ExecContext(ctx, values...); err != nil {
			return 0, fmt.Errorf("%v: %w", values[0], err)
		}
		n++
	}
	return n, nil
}
