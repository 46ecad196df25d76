package collect

import (
	"context"
	"errors"
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

// Run takes one snapshot. Errors: another run is under way in the directory, condor_status failed or printed something
// else than slots with GPUs, a file cannot be written. Nothing of the snapshot is written then, and the run log has
// the reason.
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

// collect asks the pool and writes its answer. The snapshot's time is when the answer was complete: no job in it began
// later.
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
// :45) until ctx ends, then returns nil. A run that fails is logged and the next one tried. Errors: the options are
// wrong.
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

// atMultiples calls do at the multiples of the interval since the epoch, until ctx ends. Each one is computed from
// the clock, so nothing adds up; those that pass while do runs are left out. A clock that was set is noticed within
// a minute.
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
