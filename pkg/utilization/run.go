package utilization

import (
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Run is a run, on primary or backfill slots, as a window shows it.
type Run struct {
	linked.Run
	figures               // of its part in the window
	IdleSince pool.Micros // frames.NoTime: it is not idle now
	idleUntil pool.Micros // its last sighting, if it is idle now
}

// figures are what the GPUs of a run did.
type figures struct {
	Amounts
	clamped int  // see Trace.Clamped
	isIdle  bool // an idle stretch lies in the window, at least in part
	buckets []bucketAmount
	version uint64 // of the blocks of usage that they are read from
}

// bucketAmount is what a run's GPUs did in the bucket of a series that begins at start.
type bucketAmount struct {
	start pool.Micros
	Amounts
}

// measure fills in what the run's GPUs did in the window, and in buckets of it if there are any.
func (r *Run) measure(t *Trace, w pool.Window, buckets []pool.Micros) {
	r.figures = figures{Amounts: t.Within(w), clamped: t.Clamped, isIdle: t.IdleIn(w)}
	if len(buckets) == 0 {
		return
	}
	cut := make([]pool.Micros, len(buckets))
	for i, start := range buckets {
		cut[i] = min(max(start, w.From), w.To)
	}
	t.Spread(cut, func(b int, a Amounts) { r.buckets = append(r.buckets, bucketAmount{buckets[b], a}) })
}

// idleAt fills in since when the run is idle at the window's newest snapshot, which shows it, using only the data up to
// that snapshot.
func (r *Run) idleAt(snapshot pool.Micros, t *Trace, reports Reports, gaps []timeline.Gap) {
	known := len(reports.Sightings)
	for known > 0 && reports.Sightings[known-1].Time > snapshot {
		known--
	}
	if known < len(reports.Sightings) {
		reports.Sightings = reports.Sightings[:known]
		t.Read(&reports, gaps)
	}
	if since, idle := t.IdleSince(snapshot); idle {
		r.IdleSince, r.idleUntil = since, t.Last
	}
}

// shownIn reports whether a snapshot shows the run.
func (r *Run) shownIn(snapshot int32) bool { return r.First <= snapshot && snapshot <= r.Last }
