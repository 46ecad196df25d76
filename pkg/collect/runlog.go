package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
)

// logEntry is a row of a table of the run log (package runlog), which is open as long as the run or poll of the row is
// under way.
type logEntry struct {
	db    *sql.DB
	table string
	id    int64
	note  string // what was set aside when the log was created
}

// beginEntry opens the run log, creates the table if there is none, ends the row of a killed run, and inserts a row,
// whose column started is the time. Because the caller holds the lock of the files that it records, a row without an
// end belongs to a killed run.
func beginEntry(ctx context.Context, dir, table, columns string, now time.Time,
	endKilled func(context.Context, *sql.DB) error) (logEntry, error) {
	path := filepath.Join(dir, runlog.Name)
	note, err := createFile(ctx, path, func(context.Context, *sql.Tx) error { return nil })
	var db *sql.DB
	if err == nil {
		db, err = open(ctx, path)
	}
	if err != nil {
		return logEntry{}, pool.SourceError("opening the run log %s: %w", runlog.Name, err)
	}
	e := logEntry{db: db, table: table, note: note}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS `+table+` (started TEXT NOT NULL, seconds REAL, `+columns+
		`, notes TEXT, error TEXT)`)
	if err == nil {
		err = endKilled(ctx, db)
	}
	if err == nil {
		err = db.QueryRowContext(ctx, `INSERT INTO `+table+` (started) VALUES (?) RETURNING rowid`,
			now.UTC().Format(runlog.TimeFormat)).Scan(&e.id)
	}
	if err != nil {
		return logEntry{}, errors.Join(pool.SourceError("writing to the run log %s: %w", runlog.Name, err), db.Close())
	}
	return e, nil
}

// set gives columns of the row their values: "a = ?, b = ?".
func (e logEntry) set(ctx context.Context, columns string, values ...any) error {
	_, err := e.db.ExecContext(ctx, `UPDATE `+e.table+` SET `+columns+` WHERE rowid = ?`, append(values, e.id)...)
	return err
}

// end records the end of the run or poll, also of one that was canceled, and closes the log.
func (e logEntry) end(ctx context.Context, took time.Duration, notes string, failed error, columns string,
	values ...any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	reason := ""
	if failed != nil {
		reason = failed.Error()
	}
	values = append([]any{took.Seconds(), joined(e.note, notes), reason}, values...)
	err := e.set(ctx, "seconds = ?, notes = nullif(?, ''), error = nullif(?, ''), "+columns, values...)
	if err = errors.Join(err, e.db.Close()); err != nil {
		return pool.SourceError("writing to the run log %s: %w", runlog.Name, err)
	}
	return nil
}

// runColumns are those of the table runs that polls do not have.
const runColumns = "timestamp TEXT, rows INTEGER"

// endKilled ends the run before this one if it did not do so itself. Whether its snapshot was written, its month file
// or the bucket knows; if that cannot be read, the log says why, and collecting continues.
func (o Options) endKilled(ctx context.Context, db *sql.DB) error {
	var id int64
	var timestamp string
	err := db.QueryRowContext(ctx, `SELECT rowid, coalesce(timestamp, '') FROM runs WHERE rows IS NULL AND error IS NULL`).
		Scan(&id, &timestamp)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, reason := 0, "killed: the collector was ended, or the machine stopped"
	if timestamp != "" {
		if rows, err = o.rowsOf(ctx, timestamp); err != nil {
			reason += fmt.Sprintf("; whether its snapshot of %s was written is not known: %v", timestamp, err)
		}
	}
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case rows > 0:
		_, err = db.ExecContext(ctx, `UPDATE runs SET rows = ?, notes = 'killed after the snapshot was written' `+
			`WHERE rowid = ?`, rows, id)
	default:
		_, err = db.ExecContext(ctx, `UPDATE runs SET timestamp = NULL, error = ? WHERE rowid = ?`, reason, id)
	}
	return err
}

// newest returns when the last of the runs that wrote a snapshot ended, or began if it was killed; "" if there is none.
// Its snapshot was taken before.
func (e logEntry) newest(ctx context.Context) (ended string, err error) {
	var started string
	var seconds float64
	err = e.db.QueryRowContext(ctx, `SELECT coalesce(max(started), ''), coalesce(seconds, 0) FROM runs `+
		`WHERE timestamp IS NOT NULL`).Scan(&started, &seconds) // seconds are of the row with the maximum
	if err != nil || started == "" {
		return "", err
	}
	at, err := time.Parse(runlog.TimeFormat, started)
	return at.Add(time.Duration(seconds * float64(time.Second))).Format(runlog.TimeFormat), err
}

// beginPoll records that a poll of the queues begins, in the table polls. The caller holds the lock of polls. Its
// columns:
//
//	started TEXT    when it began, UTC, YYYY-MM-DD HH:MM:SS.ffffff: the poll's time
//	seconds REAL    how long it took; NULL: it runs, or was killed
//	schedds INTEGER the access points that answered
//	jobs    INTEGER idle and running jobs that ask for GPUs
//	added   INTEGER of them those with a new row
//	notes   TEXT    what could not be stored as it was, and which access points did not answer; NULL: nothing
//	error   TEXT    why nothing was written; NULL: it was
func beginPoll(ctx context.Context, dir string, now time.Time) (logEntry, error) {
	endKilled := func(ctx context.Context, db *sql.DB) error {
		_, err := db.ExecContext(ctx, `UPDATE polls SET error = 'killed: the poller was ended, or the machine stopped' `+
			`WHERE seconds IS NULL AND error IS NULL`)
		return err
	}
	return beginEntry(ctx, dir, "polls", "schedds INTEGER, jobs INTEGER, added INTEGER", now, endKilled)
}
