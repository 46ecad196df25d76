package collect

import (
	"context"
	"errors"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runlog"
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
	defer o.close()
	held, err := lock(o.SnapshotDir, lockName)
	if err != nil {
		return Result{}, err
	}
	defer held.Close()
	began := o.now()
	log, err := beginRun(ctx, o, began)
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
	s := snapshot{timestamp: t.In(o.zone).Format(runlog.TimeFormat), slotList: slots}
	if err := log.set(ctx, "timestamp = ?", s.timestamp); err != nil {
		return Result{}, pool.SourceError("writing to the run log: %w", err)
	}
	var rows int
	var note string
	if o.bucket != nil {
		rows, note, err = s.writeObject(ctx, o.bucket, t)
	} else {
		rows, note, err = s.write(ctx, o.SnapshotDir, formats[o.Format])
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Timestamp: s.timestamp, Slots: len(s.slots), Rows: rows,
		Notes: joined(slots.notes(), slots.leftOut(), note)}, nil
}
