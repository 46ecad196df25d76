package collect

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// RunLog is the name of the file in the snapshot directory that says what each run of the collector did. Its table
// runs:
//
//	started   TEXT    when it began, UTC, YYYY-MM-DD HH:MM:SS.ffffff
//	seconds   REAL    how long it took; NULL: it runs, or was killed
//	timestamp TEXT    the snapshot that it wrote, as gpu_state has it (collector's local time); NULL: none
//	rows      INTEGER the rows of that snapshot
//	notes     TEXT    what could not be stored as it was; NULL: nothing
//	error     TEXT    why it wrote none; NULL: it did
//
// A gap without a run in it means that the collector was not started.
const RunLog = "collector_runs.db"

const timestampFormat = "2006-01-02 15:04:05.000000"

type runLog struct {
	db *sql.DB
	id int64 // of the run under way
}

// beginRun notes that a run begins. The caller holds the directory's lock, so that a run without an end was killed.
func beginRun(ctx context.Context, o Options, now time.Time) (*runLog, error) {
	db, err := open(ctx, filepath.Join(o.SnapshotDir, RunLog))
	if err != nil {
		return nil, pool.SourceError("opening the run log %s: %w", RunLog, err)
	}
	l := &runLog{db: db}
	if err := l.begin(ctx, o, now); err != nil {
		return nil, errors.Join(pool.SourceError("writing to the run log %s: %w", RunLog, err), db.Close())
	}
	return l, nil
}

func (l *runLog) begin(ctx context.Context, o Options, now time.Time) error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS runs (started TEXT NOT NULL, seconds REAL, timestamp TEXT, rows INTEGER, notes TEXT, error TEXT)`,
		`CREATE INDEX IF NOT EXISTS runs_started ON runs (started)`,
	} {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := l.endKilled(ctx, o); err != nil {
		return err
	}
	result, err := l.db.ExecContext(ctx, `INSERT INTO runs (started) VALUES (?)`, now.UTC().Format(timestampFormat))
	if err != nil {
		return err
	}
	l.id, err = result.LastInsertId()
	return err
}

// endKilled ends the run before this one if it did not do so itself. Whether its snapshot was written, its month file
// or the bucket knows.
func (l *runLog) endKilled(ctx context.Context, o Options) error {
	var id int64
	var timestamp sql.NullString
	err := l.db.QueryRowContext(ctx, `SELECT rowid, timestamp FROM runs WHERE rows IS NULL AND error IS NULL`).Scan(&id,
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
		_, err = l.db.ExecContext(ctx, `UPDATE runs SET rows = ?, notes = 'killed after the snapshot was written' WHERE rowid = ?`, rows, id)
	default:
		_, err = l.db.ExecContext(ctx, `UPDATE runs SET timestamp = NULL, error = 'killed: the collector was ended, or the machine stopped' WHERE rowid = ?`, id)
	}
	return err
}

// writes notes that the run is about to write this snapshot.
func (l *runLog) writes(ctx context.Context, timestamp string) error {
	_, err := l.db.ExecContext(ctx, `UPDATE runs SET timestamp = ? WHERE rowid = ?`, timestamp, l.id)
	return err
}

// newest is the latest beginning of a run that wrote a snapshot, "" if there is none.
func (l *runLog) newest(ctx context.Context) (started string, err error) {
	var found sql.NullString
	err = l.db.QueryRowContext(ctx, `SELECT max(started) FROM runs WHERE timestamp IS NOT NULL`).Scan(&found)
	return found.String, err
}

// end notes how the run ended and closes the log.
func (l *runLog) end(ctx context.Context, r Result, failed error) error {
	optional := func(text string) any {
		if text == "" {
			return nil
		}
		return text
	}
	var rows, reason any
	if failed != nil {
		reason = failed.Error()
	} else {
		rows = r.Rows
	}
	_, err := l.db.ExecContext(ctx, `UPDATE runs SET seconds = ?, timestamp = ?, rows = ?, notes = ?, error = ? WHERE rowid = ?`,
		r.Duration.Seconds(), optional(r.Timestamp), rows, optional(r.Notes), reason, l.id)
	if err = errors.Join(err, l.db.Close()); err != nil {
		return pool.SourceError("writing to the run log %s: %w", RunLog, err)
	}
	return nil
}
