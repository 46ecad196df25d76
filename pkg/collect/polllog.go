package collect

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// pollLog is the table polls of the run log (RunLog), which says what each poll of the queues did:
//
//	started TEXT    when it began, UTC, YYYY-MM-DD HH:MM:SS.ffffff: the poll's time
//	seconds REAL    how long it took; NULL: it runs, or was killed
//	schedds INTEGER the access points that answered
//	jobs    INTEGER idle jobs that ask for GPUs
//	added   INTEGER of them those with a new row
//	notes   TEXT    what could not be stored as it was, and which access points did not answer; NULL: nothing
//	error   TEXT    why nothing was written; NULL: it was
type pollLog struct {
	db *sql.DB
	id int64 // of the poll under way
}

// beginPoll notes that a poll begins. The caller holds the lock of polls.
func beginPoll(ctx context.Context, dir string, now time.Time) (*pollLog, error) {
	db, err := open(ctx, filepath.Join(dir, RunLog))
	if err != nil {
		return nil, pool.SourceError("opening the run log %s: %w", RunLog, err)
	}
	l := &pollLog{db: db}
	if err := l.begin(ctx, now); err != nil {
		return nil, errors.Join(pool.SourceError("writing to the run log %s: %w", RunLog, err), db.Close())
	}
	return l, nil
}

func (l *pollLog) begin(ctx context.Context, now time.Time) error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS polls (started TEXT NOT NULL, seconds REAL, schedds INTEGER, jobs INTEGER, added INTEGER, notes TEXT, error TEXT)`,
		`UPDATE polls SET error = 'killed: the poller was ended, or the machine stopped' WHERE seconds IS NULL AND error IS NULL`,
	} {
		if _, err := l.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	result, err := l.db.ExecContext(ctx, `INSERT INTO polls (started) VALUES (?)`, now.UTC().Format(timestampFormat))
	if err != nil {
		return err
	}
	l.id, err = result.LastInsertId()
	return err
}

// endPoll notes how the poll ended and closes the log.
func (l *pollLog) endPoll(ctx context.Context, p Polled, failed error) error {
	var notes, reason any
	if p.Notes != "" {
		notes = p.Notes
	}
	if failed != nil {
		reason = failed.Error()
	}
	_, err := l.db.ExecContext(ctx, `UPDATE polls SET seconds = ?, schedds = ?, jobs = ?, added = ?, notes = ?, error = ? WHERE rowid = ?`,
		p.Duration.Seconds(), p.Schedds, p.Jobs, p.New, notes, reason, l.id)
	if err = errors.Join(err, l.db.Close()); err != nil {
		return pool.SourceError("writing to the run log %s: %w", RunLog, err)
	}
	return nil
}
