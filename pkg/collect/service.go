package collect

import (
	"context"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

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
