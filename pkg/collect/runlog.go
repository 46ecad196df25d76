package collect

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// runLog is a row of the table runs of the run log.
type runLog struct{ logEntry }

// beginRun records that a run begins. The caller holds the directory's lock, so that a run without an end was killed.
func beginRun(ctx context.Context, o Options, now time.Time) (runLog, error) {
	e, err := beginEntry(ctx, o.SnapshotDir, "runs", now, func(ctx context.Context, db *sql.DB) error {
		err := execute(ctx, db,
			`CREATE TABLE IF NOT EXISTS runs (started TEXT NOT NULL, seconds REAL, timestamp TEXT, rows INTEGER, notes TEXT, `+
				`error TEXT)`,
			`CREATE INDEX IF NOT EXISTS runs_started ON runs (started)`)
		if err != nil {
			return err
		}
		return endKilled(ctx, db, o)
	})
	return runLog{e}, err
}

// endKilled ends the run before this one if it did not do so itself. Whether its snapshot was written, its month file
// or the bucket knows.
func endKilled(ctx context.Context, db *sql.DB, o Options) error {
	var id int64
	var timestamp sql.NullString
	err := db.QueryRowContext(ctx, `SELECT rowid, timestamp FROM runs WHERE rows IS NULL AND error IS NULL`).Scan(&id,
		&timestamp)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	rows := 0
	if err == nil && timestamp.Valid {
		if rows, err = rowsOf(ctx, o.SnapshotDir, timestamp.String); rows == 0 && err == nil && o.To.URL != "" {
			rows, err = o.To.count(ctx, timestamp.String)
		}
	}
	switch {
	case err != nil:
		return err
	case rows > 0:
		_, err = db.ExecContext(ctx, `UPDATE runs SET rows = ?, notes = 'killed after the snapshot was written' WHERE rowid = ?`, rows, id)
	default:
		_, err = db.ExecContext(ctx, `UPDATE runs SET timestamp = NULL, error = 'killed: the collector was ended, or the machine stopped' WHERE rowid = ?`, id)
	}
	return err
}

// writes records that the run is about to write this snapshot.
func (l runLog) writes(ctx context.Context, timestamp string) error {
	return l.set(ctx, "timestamp = ?", timestamp)
}

// newest returns the latest beginning of a run that wrote a snapshot, "" if there is none.
func (l runLog) newest(ctx context.Context) (started string, err error) {
	var found sql.NullString
	err = l.db.QueryRowContext(ctx, `SELECT max(started) FROM runs WHERE timestamp IS NOT NULL`).Scan(&found)
	return found.String, err
}

// end records how the run ended and closes the log.
func (l runLog) end(ctx context.Context, r Result, failed error) error {
	var rows any
	if failed == nil {
		rows = r.Rows
	}
	return l.close(ctx, "seconds = ?, timestamp = ?, rows = ?, notes = ?, error = ?",
		r.Duration.Seconds(), textOrNull(r.Timestamp), rows, textOrNull(r.Notes), reasonOrNull(failed))
}
