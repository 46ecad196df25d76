package collect

import (
	"context"
	"database/sql"
	"time"
)

// pollLog is a row of the table polls of the run log (package runlog), which records what each poll of the queues did:
//
//	started TEXT    when it began, UTC, YYYY-MM-DD HH:MM:SS.ffffff: the poll's time
//	seconds REAL    how long it took; NULL: it runs, or was killed
//	schedds INTEGER the access points that answered
//	jobs    INTEGER idle jobs that ask for GPUs
//	added   INTEGER of them those with a new row
//	notes   TEXT    what could not be stored as it was, and which access points did not answer; NULL: nothing
//	error   TEXT    why nothing was written; NULL: it was
type pollLog struct{ logEntry }

// beginPoll records that a poll begins. The caller holds the lock of polls.
func beginPoll(ctx context.Context, dir string, now time.Time) (pollLog, error) {
	e, err := beginEntry(ctx, dir, "polls", now, func(ctx context.Context, db *sql.DB) error {
		return execute(ctx, db,
			`CREATE TABLE IF NOT EXISTS polls (started TEXT NOT NULL, seconds REAL, schedds INTEGER, jobs INTEGER, `+
				`added INTEGER, notes TEXT, error TEXT)`,
			`UPDATE polls SET error = 'killed: the poller was ended, or the machine stopped' `+
				`WHERE seconds IS NULL AND error IS NULL`)
	})
	return pollLog{e}, err
}

// end records how the poll ended and closes the log.
func (l pollLog) end(ctx context.Context, p Polled, failed error) error {
	return l.close(ctx, "seconds = ?, schedds = ?, jobs = ?, added = ?, notes = ?, error = ?",
		p.Duration.Seconds(), p.Schedds, p.Jobs, p.New, textOrNull(p.Notes), reasonOrNull(failed))
}
