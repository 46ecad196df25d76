package collect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chtc/gpureports/pkg/files"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// Result is the result of a run.
type Result struct {
	Timestamp string        // the snapshot's, as gpu_state has it (collector's local time); "": none was written
	Slots     int           // ads of slots
	Rows      int           // rows of the snapshot: one for each GPU of each slot
	Notes     string        // values that were not stored unchanged, "" if none
	Duration  time.Duration // how long the run took
}

// Run takes one snapshot. On an error nothing of it is written, and the run log has the reason: another run is under
// way in the directory, condor_status failed or printed no slots with GPUs, a file cannot be written.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.prepare()
	if err != nil {
		return Result{}, err
	}
	if o.bucket != nil {
		defer o.bucket.Close()
	}
	held, err := lock(o.SnapshotDir, lockName)
	if err != nil {
		return Result{}, err
	}
	defer held.Close()
	began := o.now()
	log, err := beginEntry(ctx, o.SnapshotDir, "runs", runColumns, began, o.endKilled)
	if err != nil {
		return Result{}, err
	}
	result, err := collect(ctx, o, log)
	result.Duration = o.now().Sub(began)
	failed := log.end(ctx, result.Duration, result.Notes, err, "timestamp = nullif(?, ''), rows = nullif(?, 0)",
		result.Timestamp, result.Rows)
	if err == nil && failed != nil { // the snapshot was taken anyway
		result.Notes, failed = joined(result.Notes, failed.Error()), nil
	}
	return result, errors.Join(err, failed)
}

// collect asks the pool and writes its answer. The snapshot's time is when that was complete: no job in it began later.
func collect(ctx context.Context, o Options, log logEntry) (Result, error) {
	// Ask the pool, and refuse a clock that was set back.
	slots, err := query(ctx, o)
	if err != nil {
		return Result{}, err
	}
	t := o.now()
	newest, err := log.newest(ctx)
	if err != nil {
		return Result{}, pool.SourceError("reading the run log: %w", err)
	}
	if utc := t.UTC().Format(runlog.TimeFormat); utc <= newest {
		return Result{}, pool.SourceError("this machine's clock shows %s UTC, but the last run that took a "+
			"snapshot ended at %s: set the clock; snapshots must be in the order of time", utc, newest)
	}
	// Note the snapshot's time before it is written, in case the run is killed.
	s := snapshot{timestamp: t.In(o.zone).Format(runlog.TimeFormat), slotList: slots}
	if err := log.set(ctx, "timestamp = ?", s.timestamp); err != nil {
		return Result{}, pool.SourceError("writing to the run log: %w", err)
	}
	// Write the snapshot.
	var rows int
	var note string
	if o.bucket != nil {
		rows, note, err = s.writeObject(ctx, o.bucket, t)
	} else {
		f := formats[o.Format]
		name := snapshots.MonthFile(s.timestamp[:len("2026-07")], f.extension)
		if rows, note, err = f.add(ctx, filepath.Join(o.SnapshotDir, name), s); err != nil {
			err = pool.SourceError("writing to %s: %w", name, err)
		}
	}
	if err != nil {
		return Result{}, err
	}
	unread := notesOn(s.slots, slotAttributes, "slots", "Name", "stored as NULL")
	return Result{Timestamp: s.timestamp, Slots: len(s.slots), Rows: rows, Notes: joined(unread, s.leftOut(), note)}, nil
}

// lockName is the file whose lock a run that takes a snapshot holds; it stays.
const lockName = "collector.lock"

// lock lets one collection of a kind at a time into the directory.
func lock(dir, name string) (*os.File, error) {
	held, err := files.Lock(filepath.Join(dir, name))
	switch {
	case errors.Is(err, files.ErrLocked):
		return nil, pool.SourceError("another collection is under way in %s", dir)
	case err != nil:
		return nil, pool.SourceError("locking the snapshot directory: %w: create it, writable for the user that collects",
			err)
	}
	return held, nil
}

// Service takes a snapshot, or with Jobs polls the queues, at every multiple of the interval (15m: at :00, :15, :30,
// :45) until ctx ends, then returns nil. A run that fails is logged. Errors: the options are wrong.
func Service(ctx context.Context, o Options, every time.Duration) error {
	o, err := o.prepare()
	if err != nil {
		return err
	}
	if every < MinEvery {
		return pool.BadQuery("collect: an interval of %s is too short: at least %s", every, MinEvery)
	}
	if o.Timeout >= every {
		return pool.BadQuery("collect: the timeout (%s) must be shorter than the interval (%s)", o.Timeout, every)
	}
	o.Log.Info("collecting", "directory", o.SnapshotDir, "every", every, "timezone", o.zone)
	o.away = 3 * every
	atMultiples(ctx, every, func() { o.once(ctx) })
	return nil
}

// once takes one snapshot of the service, or polls the queues once.
func (o Options) once(ctx context.Context) {
	if o.Jobs {
		r, err := Poll(ctx, o)
		o.report("poll", err, r.Notes, r.Duration, "time", r.Time, "schedds", r.Schedds, "jobs", r.Jobs, "new", r.New)
		return
	}
	r, err := Run(ctx, o)
	o.report("snapshot", err, r.Notes, r.Duration, "timestamp", r.Timestamp, "slots", r.Slots, "rows", r.Rows)
}

// report logs how a poll or a snapshot ended.
func (o Options) report(what string, err error, notes string, took time.Duration, figures ...any) {
	figures = append(figures, "duration", took)
	switch {
	case err != nil:
		o.Log.Error("no "+what, "error", err, "duration", took)
	case notes != "":
		o.Log.Warn(what, append(figures, "notes", notes)...)
	default:
		o.Log.Info(what, figures...)
	}
}

// atMultiples calls do at the multiples of the interval since the epoch, until ctx ends, except at those that pass
// while do runs. Each is computed from the clock, so nothing adds up. A clock that was set is noticed within a minute.
func atMultiples(ctx context.Context, every time.Duration, do func()) {
	next := time.Now().Truncate(every).Add(every)
	for parallel.Wait(ctx, min(time.Until(next), time.Minute)) == nil {
		now := time.Now().Round(0) // without the monotonic clock
		if !now.Before(next) {
			do()
			now = time.Now().Round(0)
		} else if next.Sub(now) <= every {
			continue
		} // else the clock was set back
		next = now.Truncate(every).Add(every)
	}
}

// logEntry is a row of a table of the run log (package runlog), which is open while its run or poll is under way.
type logEntry struct {
	db    *sql.DB
	table string
	id    int64
	note  string // what was set aside when the log was created
}

// beginEntry opens the run log, creates the table if there is none, ends the row of a killed run, and inserts a row
// that started now. Because the caller holds the lock of the files that it records, a row without an end is of a killed
// run.
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

// newest returns when the last run that wrote a snapshot ended, or began if it was killed; "" if there is none.
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
