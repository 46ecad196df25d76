package utilization

import (
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Run is a run, on primary or backfill slots, as a window shows it.
type Run struct {
	*runs.Explained
	Machine  *runs.Machine
	Category pool.Category
	Until    pool.Micros // its end, cut to the window

	Amounts                  // of its part in the window
	Clamped   int            // see Trace.Clamped
	IsIdle    bool           // an idle stretch lies in the window, at least in part
	IdleSince pool.Micros    // frames.NoTime: it is not idle now
	idleUntil pool.Micros    // its last sighting, if it is idle now
	buckets   []bucketAmount // of a series, ascending; not to be changed
	shift     int            // is added to the numbers of buckets
}

// bucketAmount is what a run's GPUs did in a bucket.
type bucketAmount struct {
	bucket int
	Amounts
}

// measure fills in what the run's GPUs did in the window, and in buckets of it if there are any.
func (r *Run) measure(t *Trace, w pool.Window, buckets []pool.Micros) {
	r.Amounts, r.IsIdle, r.Clamped = t.Within(w), t.IdleIn(w), t.Clamped
	if len(buckets) == 0 {
		return
	}
	at := func(time pool.Micros) int { n, _ := slices.BinarySearch(buckets, time); return n }
	r.buckets = make([]bucketAmount, 0, at(t.End)-at(t.Start)+2)
	t.Spread(buckets, func(b int, a Amounts) { r.buckets = append(r.buckets, bucketAmount{b, a}) })
}

// cut returns buckets cut to the window.
func cut(starts []pool.Micros, w pool.Window) []pool.Micros {
	inside := make([]pool.Micros, len(starts))
	for i, t := range starts {
		inside[i] = min(max(t, w.From), w.To)
	}
	return inside
}

// idleAt fills in since when the run is idle at the window's newest snapshot, which shows it: by what is known there.
func (r *Run) idleAt(snapshot pool.Micros, t *Trace, reports Reports, gaps []Gap) {
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

// Whole is the run's length until Until.
func (r *Run) Whole() pool.Micros { return max(0, r.Until-r.Start) }

// collect returns the runs that overlap the window, by machine and first snapshot.
func collect(o *runs.Observed, x *runs.Explanations, w pool.Window) []Run {
	until := w.To // of runs that go on at the end of the data
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		until = o.View.Times[n-1]
	}
	n, since := 0, o.Since(w)
	for m := range x.Machines {
		n += x.Machines[m].Runs.Len()
	}
	all := make([]Run, 0, n)
	for m := range o.Machines {
		machine := &o.Machines[m]
		for _, e := range x.Machines[m].Runs.All() {
			e = e.From(o, since)
			r := Run{Explained: e, Machine: machine, Until: e.End, IdleSince: frames.NoTime}
			if e.Outcome == runs.Running {
				r.Until = max(until, e.Start)
			}
			r.Until = min(r.Until, w.To)
			if e.Start > w.To || r.Until < w.From {
				continue
			}
			r.Category = e.Place.Category()
			if e.Side == pool.Primary {
				r.Category = pool.PrimaryCategory(e.Place.Ownership == pool.CHTCOwned, e.Project != 0)
			}
			all = append(all, r)
		}
	}
	return all
}

// Sums are what a group of runs adds up to.
type Sums struct {
	Amounts
	Runs, IdleRuns int
}

func (m *Sums) add(r *Run) {
	m.Add(r.Amounts)
	m.Runs++
	if r.IsIdle {
		m.IdleRuns++
	}
}

// metric returns a metric; NaN where it has no value.
func (m *Sums) metric(name string) float64 {
	switch name {
	case "heldGpuHours":
		return m.Held
	case "measuredPercent":
		return share(m.Measured, m.Held)
	case "utilizationPercent":
		return m.percent(m.Busy)
	case "busyGpuHours":
		return m.Busy
	case "idleGpuHours":
		return m.Idle
	case "idlePercent":
		return m.percent(m.Idle)
	case "runs":
		return float64(m.Runs)
	}
	return float64(m.IdleRuns)
}

// percent is a share of the measured GPU-hours in percent, NaN below one of them.
func (a *Amounts) percent(part float64) float64 {
	if a.Measured < leastHours*(1-1e-9) { // a sum of hours is as exact as floating point is
		return math.NaN()
	}
	return share(part, a.Measured)
}

// share is 100·a/b, NaN when b is 0.
func share(a, b float64) float64 { return ratio(100*a, b) }

// ratio is a/b, NaN when b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// group is what runs are counted under; what is not asked for is zero.
type group struct {
	place         runs.Place
	category      pool.Category
	user, project timeline.Symbol
}

// grouping forms groups.
type grouping struct {
	by    []string
	names []string
	shown func(column, stored string) string // as answers show it
}

func (g *grouping) of(r *Run) (k group) {
	for _, name := range g.by {
		switch name {
		case "category":
			k.category = r.Category
		case "device":
			k.place.Device = r.Place.Device
		case "memory":
			k.place.Memory = r.Place.Memory
		case "machine":
			k.place.Machine = r.Place.Machine
		case "ownership":
			k.place.Ownership = r.Place.Ownership
		case "project":
			k.project = r.Project
		case "user":
			k.user = r.User
		}
	}
	return k
}

// texts are a group's values.
func (g *grouping) texts(k group) []string {
	values := make([]string, len(g.by))
	for i, name := range g.by {
		switch name {
		case "category":
			values[i] = k.category.String()
		case "project":
			values[i] = g.names[k.project]
		case "user":
			values[i] = g.shown(name, g.names[k.user])
		default:
			values[i] = g.shown(name, k.place.Text(name, g.names))
		}
	}
	return values
}

// gaps are the collector's gaps in a view, ascending.
func gaps(o *runs.Observed) (all []Gap) {
	times := o.View.Times
	for s := o.First; s+1 < o.End; s++ {
		if o.GapAfter(int32(s)) {
			all = append(all, Gap{times[s], times[s+1]})
		}
	}
	return slices.Clip(all)
}
