package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"modernc.org/sqlite"

	"github.com/chtc/gpureports/pkg/sqlitefile"
)

// snapshot is a pool's slots at one time.
type snapshot struct {
	timestamp string // YYYY-MM-DD HH:MM:SS.ffffff in the collector's local time
	ads       []slotAd
	models    map[gpuAttribute]model
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
func addSQLite(ctx context.Context, path string, s snapshot) (rows int, afterwards, err error) {
	if err := createFile(ctx, path, prepareTable); err != nil {
		return 0, nil, fmt.Errorf("creating it: %w", err)
	}
	return s.append(ctx, path)
}

// createFile makes a month file if there is none. It appears with its table, so that no reader ever finds it without.
func createFile(ctx context.Context, path string, prepare func(context.Context, *sql.DB) error) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh := path + ".new" // no month file's name
	for _, leftover := range []string{fresh, fresh + "-journal", fresh + "-wal", fresh + "-shm"} {
		if err := os.Remove(leftover); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	db, err := open(ctx, fresh)
	if err != nil {
		return err
	}
	if err := errors.Join(prepare(ctx, db), db.Close()); err != nil {
		return err
	}
	return os.Rename(fresh, path)
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
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	there, err := tableColumns(ctx, tx, table)
	if err != nil {
		return err
	}
	var changes []string
	if len(there) == 0 {
		changes = append(changes, "CREATE TABLE "+table+" ("+definitions(columns)+")")
	} else {
		for _, c := range columns {
			if !slices.ContainsFunc(there, func(name string) bool { return strings.EqualFold(name, c.name) }) {
				changes = append(changes, "ALTER TABLE "+table+" ADD COLUMN "+definitions([]column{c}))
			}
		}
	}
	for _, statement := range append(changes, statements...) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func tableColumns(ctx context.Context, tx *sql.Tx, table string) (names []string, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM pragma_table_info(?)", table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func definitions(columns []column) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = fmt.Sprintf("%q %s", c.name, c.affinity)
	}
	return strings.Join(parts, ", ")
}

func quotedNames(columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = fmt.Sprintf("%q", c.name)
	}
	return strings.Join(names, ", ")
}

// append writes the snapshot. afterwards is a failure after the commit, which leaves the snapshot valid.
func (s snapshot) append(ctx context.Context, path string) (rows int, afterwards, err error) {
	db, err := open(ctx, path)
	if err != nil {
		return 0, nil, err
	}
	if rows, err = s.commit(ctx, db); err != nil {
		return 0, nil, errors.Join(err, db.Close())
	}
	// The main file is complete then, for those who copy it. A reader can prevent this; the next run does it.
	_, checkpoint := db.ExecContext(context.WithoutCancel(ctx),
		"PRAGMA busy_timeout = 1000; PRAGMA wal_checkpoint(TRUNCATE)")
	return rows, errors.Join(checkpoint, db.Close()), nil
}

func (s snapshot) commit(ctx context.Context, db *sql.DB) (rows int, err error) {
	if err := keepLog(ctx, db); err != nil {
		return 0, err
	}
	if err := prepareTable(ctx, db); err != nil {
		return 0, err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if rows, err = s.insert(ctx, tx); err != nil {
		return 0, err
	}
	return rows, tx.Commit()
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

// rowsAtOnce is the number of rows an INSERT takes.
const rowsAtOnce = 32

func (s snapshot) insert(ctx context.Context, tx *sql.Tx) (rows int, err error) {
	row := "(?" + strings.Repeat(",?", len(columns)-1) + ")"
	into := "INSERT INTO gpu_state (" + quotedNames(columns) + ") VALUES " + row
	many, err := tx.PrepareContext(ctx, into+strings.Repeat(","+row, rowsAtOnce-1))
	if err != nil {
		return 0, err
	}
	defer many.Close()
	one, err := tx.PrepareContext(ctx, into)
	if err != nil {
		return 0, err
	}
	defer one.Close()
	values := make([]any, 0, rowsAtOnce*len(columns))
	for i := range s.ads {
		for _, row := range s.ads[i].rows(s.timestamp, s.models) {
			rows++
			if values = append(values, row...); len(values) == cap(values) {
				if _, err := many.ExecContext(ctx, values...); err != nil {
					return 0, err
				}
				values = values[:0]
			}
		}
	}
	for ; len(values) > 0; values = values[len(columns):] {
		if _, err := one.ExecContext(ctx, values[:len(columns)]...); err != nil {
			return 0, err
		}
	}
	return rows, nil
}
