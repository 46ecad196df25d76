package collect

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
)

const timestampFormat = "2006-01-02 15:04:05.000000"

// logEntry is a row of a table of the run log (package runlog), which is open as long as what the row describes is
// under way.
type logEntry struct {
	db    *sql.DB
	table string
	id    int64
}

// beginEntry opens the run log, prepares it (creates the table, ends the row of what was killed) and inserts a row into
// the table, whose column started is the time.
func beginEntry(ctx context.Context, dir, table string, now time.Time,
	prepare func(context.Context, *sql.DB) error) (logEntry, error) {
	db, err := open(ctx, filepath.Join(dir, runlog.Name))
	if err != nil {
		return logEntry{}, pool.SourceError("opening the run log %s: %w", runlog.Name, err)
	}
	e := logEntry{db: db, table: table}
	if err = prepare(ctx, db); err == nil {
		e.id, err = e.insert(ctx, now)
	}
	if err != nil {
		return logEntry{}, errors.Join(pool.SourceError("writing to the run log %s: %w", runlog.Name, err), db.Close())
	}
	return e, nil
}

func (e logEntry) insert(ctx context.Context, now time.Time) (id int64, err error) {
	result, err := e.db.ExecContext(ctx, `INSERT INTO `+e.table+` (started) VALUES (?)`,
		now.UTC().Format(runlog.TimeFormat))
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// set gives columns of the row their values: "a = ?, b = ?".
func (e logEntry) set(ctx context.Context, columns string, values ...any) error {
	_, err := e.db.ExecContext(ctx, `UPDATE `+e.table+` SET `+columns+` WHERE rowid = ?`, append(values, e.id)...)
	return err
}

// close sets columns as set does, and closes the log.
func (e logEntry) close(ctx context.Context, columns string, values ...any) error {
	if err := errors.Join(e.set(ctx, columns, values...), e.db.Close()); err != nil {
		return pool.SourceError("writing to the run log %s: %w", runlog.Name, err)
	}
	return nil
}

// execute executes statements one after the other.
func execute(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// textOrNull returns NULL for an empty text.
func textOrNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// reasonOrNull returns an error's text, NULL if there is none.
func reasonOrNull(err error) any {
	if err == nil {
		return nil
	}
	return err.Error()
}
