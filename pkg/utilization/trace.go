package utilization

import (
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// What counts as idle (methodology section 13).
const (
	idleWindow = 29*pool.Minute + 30*pool.Second // shortest idle window: 30 min, as collectors come a few seconds early
	idleShare  = 0.01                            // an idle window has less than this share of its GPU time busy
	reportAge  = 300 * pool.Second               // a report of the startd can be this old
	idleNow    = 2 * pool.Hour                   // shortest stretch of a run that is idle now
	oldest     = 30 * pool.Minute                // age of the last sighting of a run that is idle now
)

// Sighting is a snapshot that shows a run with its GPUsAverageUsage.
type Sighting struct {
	Time  pool.Micros
	Usage float64 // GPUs that computed, on average since the run's start; 0 or more
}

// Reports are the startd's reports about a run, a job's hold on GPUs.
type Reports struct {
	GPUs       int
	Start, End pool.Micros
	Sightings  []Sighting // ascending by time
}

// point is a sighting with the busy GPU time up to it.
type point struct {
	at    pool.Micros
	busy  float64 // B: GPUs · µs
	usage float64
}

// piece is the time between two consecutive sightings without a gap between them.
type piece struct {
	from, to pool.Micros
	busy     float64 // GPUs · µs, at most GPUs · (to − from)
}

// Trace describes what the GPUs of a run did between its sightings.
type Trace struct {
	Reports
	Idle    []pool.Window // idle stretches, ascending
	Last    pool.Micros   // the last sighting; Start counts as one
	Clamped int           // pieces whose busy time was clamped by more than reports can be old

	points []point
	pieces []piece
}

// Read un-averages the reports of a run: it replaces the trace by that of the run. Gaps are ascending.
func (t *Trace) Read(r *Reports, gaps []timeline.Gap) {
	*t = Trace{Reports: *r, Idle: t.Idle[:0], points: t.points[:0], pieces: t.pieces[:0]}
	t.points = append(t.points, point{at: r.Start})
	for _, s := range r.Sightings {
		if s.Time <= r.Start { // nothing was computed before it
			continue
		}
		usage := min(s.Usage, float64(r.GPUs))
		t.points = append(t.points, point{s.Time, usage * float64(s.Time-r.Start), usage})
	}
	t.Last = t.points[len(t.points)-1].at
	gaps = gaps[sort.Search(len(gaps), func(i int) bool { return gaps[i].From >= r.Start }):]
	t.measure(gaps)
	t.findIdle(gaps)
}

// measure finds the pieces.
func (t *Trace) measure(gaps []timeline.Gap) {
	for i := 1; i < len(t.points); i++ {
		a, b := t.points[i-1], t.points[i]
		if gaps = after(gaps, a.at); between(gaps, b.at) {
			continue
		}
		most := float64(t.GPUs) * float64(b.at-a.at)
		difference := b.busy - a.busy
		busy := min(max(difference, 0), most)
		if max(busy-difference, difference-busy) > idleShare*most+float64(reportAge)*b.usage {
			t.Clamped++
		}
		t.pieces = append(t.pieces, piece{a.at, b.at, busy})
	}
}

// findIdle finds the idle windows, and joins those that overlap or touch.
func (t *Trace) findIdle(gaps []timeline.Gap) {
	end := 1
	for i, a := range t.points {
		for end < len(t.points) && t.points[end].at-a.at < idleWindow {
			end++
		}
		if end == len(t.points) {
			return
		}
		b := t.points[end]
		if gaps = after(gaps, a.at); between(gaps, b.at) {
			continue
		}
		worked := b.busy - t.points[i].busy - float64(reportAge)*b.usage
		if worked >= idleShare*float64(t.GPUs)*float64(b.at-a.at) {
			continue
		}
		if n := len(t.Idle); n > 0 && a.at <= t.Idle[n-1].To {
			t.Idle[n-1].To = b.at
		} else {
			t.Idle = append(t.Idle, pool.Window{From: a.at, To: b.at})
		}
	}
}

// after drops gaps that begin before t.
func after(gaps []timeline.Gap, t pool.Micros) []timeline.Gap {
	for len(gaps) > 0 && gaps[0].From < t {
		gaps = gaps[1:]
	}
	return gaps
}

// between reports whether the first of the gaps lies before t.
func between(gaps []timeline.Gap, t pool.Micros) bool { return len(gaps) > 0 && gaps[0].To <= t }

// Amounts are what GPUs did in a range of time, in GPU-hours.
type Amounts struct {
	Held     float64 `json:"held,omitempty"`
	Measured float64 `json:"measured,omitempty"`
	Busy     float64 `json:"busy,omitempty"`
	Idle     float64 `json:"idle,omitempty"`
}

// Add adds other amounts.
func (a *Amounts) Add(b Amounts) {
	a.Held += b.Held
	a.Measured += b.Measured
	a.Busy += b.Busy
	a.Idle += b.Idle
}

// Within returns the amounts of the run's part in a range of time. A piece that reaches beyond it counts in proportion.
func (t *Trace) Within(w pool.Window) Amounts {
	var of Amounts
	t.Spread([]pool.Micros{w.From, w.To}, func(_ int, a Amounts) { of = a })
	return of
}

// Spread calls add with the run's amounts in each of the buckets [starts[i], starts[i+1]) that it overlaps.
func (t *Trace) Spread(starts []pool.Micros, add func(bucket int, a Amounts)) {
	pieces, idle := t.pieces, t.Idle
	first := max(0, sort.Search(len(starts), func(i int) bool { return starts[i] > t.Start })-1)
	for b := first; b+1 < len(starts) && starts[b] < t.End; b++ {
		from, to := max(t.Start, starts[b]), min(t.End, starts[b+1])
		if to <= from {
			continue
		}
		a := Amounts{Held: t.gpuHours(to - from)}
		for len(pieces) > 0 && pieces[0].to <= from {
			pieces = pieces[1:]
		}
		for _, p := range pieces {
			part := min(p.to, to) - max(p.from, from)
			if part <= 0 {
				break
			}
			a.Measured += t.gpuHours(part)
			a.Busy += p.busy / float64(pool.Hour) * (float64(part) / float64(p.to-p.from))
		}
		for len(idle) > 0 && idle[0].To <= from {
			idle = idle[1:]
		}
		for _, s := range idle {
			part := min(s.To, to) - max(s.From, from)
			if part <= 0 {
				break
			}
			a.Idle += t.gpuHours(part)
		}
		add(b, a)
	}
}

func (t *Trace) gpuHours(d pool.Micros) float64 { return float64(t.GPUs) * pool.Hours(d) }

// IdleIn reports whether an idle stretch of the run lies in the window, at least in part.
func (t *Trace) IdleIn(w pool.Window) bool {
	w = pool.Window{From: max(w.From, t.Start), To: min(w.To, t.End)}
	return slices.ContainsFunc(t.Idle, func(s pool.Window) bool { return max(s.From, w.From) < min(s.To, w.To) })
}

// IdleSince returns the beginning of the stretch that makes a run idle now, at the snapshot with which the trace ends.
func (t *Trace) IdleSince(snapshot pool.Micros) (since pool.Micros, idle bool) {
	if len(t.Idle) == 0 || snapshot-t.Last > oldest {
		return 0, false
	}
	s := t.Idle[len(t.Idle)-1]
	return s.From, s.To == t.Last && s.To-s.From >= idleNow
}

// reported is the usage of a view's days.
type reported struct {
	view   *timeline.View
	gaps   []timeline.Gap
	first  int               // the first day, as an index in view.Days
	blocks []*timeline.Usage // one for each day from it on
	of     [][]int32         // each day's index of each GPU of the timeline, −1 without a row
	jobs   []func() timeline.Jobs
}

func newReported(v *timeline.View, first int, blocks []*timeline.Usage) *reported {
	gaps := v.Gaps(pool.Window{From: math.MinInt64, To: math.MaxInt64})
	r := &reported{view: v, gaps: gaps, first: first, blocks: blocks}
	for k := range blocks {
		r.of, r.jobs = append(r.of, v.Places(first+k)), append(r.jobs, sync.OnceValue(v.Days[first+k].Jobs))
	}
	return r
}

// version changes with the blocks of a run's days: a day that grows or is read again has another one.
func (r *reported) version(run *runs.Run) (version uint64) {
	for k := r.view.DayAt(int(run.First)); k <= r.view.DayAt(int(run.Last)); k++ {
		version = (version ^ r.blocks[k-r.first].Number) * 1099511628211 // FNV-1a, by words
	}
	return version
}

// missing returns the window's days without any value.
func (r *reported) missing(w pool.Window) (dates []string) {
	for k, b := range r.blocks {
		if d := r.view.Days[r.first+k]; b.Empty() && d.Times[0] <= w.To && d.Times[len(d.Times)-1] >= w.From {
			dates = append(dates, pool.Time(d.Times[0]).Format(time.DateOnly))
		}
	}
	return dates
}

// reader reads the sightings of runs, machine by machine.
type reader struct {
	machine *runs.Machine
	values  [][]float64 // by day, GPU of the machine and side: as read from the blocks; nil: not yet
	row     []float64   // a run's values on a day
	list    []Sighting
	trace   Trace
}

// usage returns what a GPU reported on a side in the snapshots of the k-th day.
func (d *reader) usage(r *reported, k int, gpu int32, side pool.Side) []float64 {
	values := &d.values[(k*len(d.machine.GPUs)+int(gpu))*2+int(side)]
	if *values != nil {
		return *values
	}
	b := r.blocks[k]
	*values = make([]float64, len(r.view.Days[r.first+k].Times))
	index := r.of[k][d.machine.GPUs[gpu].GPU]
	if index < 0 || !b.Read(timeline.UsagePlace{GPU: int(index), Side: side}, *values) {
		*values = []float64{}
	}
	return *values
}

// sightings returns the snapshots of a run in which its claim reported a usage.
func (d *reader) sightings(r *reported, run *runs.Run) []Sighting {
	d.list = d.list[:0]
	v := r.view
	for k := v.DayAt(int(run.First)); k < len(v.Days) && v.Base[k] <= int(run.Last); k++ {
		base, times := v.Base[k], v.Days[k].Times
		from, to := max(0, int(run.First)-base), min(len(times)-1, int(run.Last)-base)
		d.row = slices.Grow(d.row[:0], len(times))[:len(times)]
		for s := from; s <= to; s++ {
			d.row[s] = math.NaN()
		}
		for _, g := range run.GPUs {
			d.fill(r, k-r.first, g, run, from, to)
		}
		for s := from; s <= to; s++ {
			if value := d.row[s]; value >= 0 { // NaN is not
				d.list = append(d.list, Sighting{times[s], value})
			}
		}
	}
	return d.list
}

// fill notes what the run's claim reported with one of its GPUs in the snapshots from … to of the k-th day.
func (d *reader) fill(r *reported, k int, gpu int32, run *runs.Run, from, to int) {
	day := r.view.Days[r.first+k]
	index := r.of[k][d.machine.GPUs[gpu].GPU]
	if index < 0 {
		return
	}
	isClaim := func(user timeline.Symbol, job timeline.Job) bool {
		return job == run.Job && (!job.IsNone() || user == run.User)
	}
	if values := d.usage(r, k, gpu, run.Side); len(values) > 0 {
		for span := range day.SpansIn(int(index), from, to+1) {
			of := day.StatusRows(span.Status)[run.Side]
			if of.State != pool.Claimed || !isClaim(of.User, r.jobs[k]()[span.Status][run.Side]) {
				continue
			}
			for s := span.First; s < span.End; s++ {
				if values[s] >= 0 {
					d.row[s] = values[s]
				}
			}
		}
	}
	for _, f := range r.blocks[k].Further {
		if f.GPU != int(index) || f.Side != run.Side || f.Snapshot < from || f.Snapshot > to {
			continue
		}
		for span := range day.SpansIn(f.GPU, f.Snapshot, f.Snapshot+1) {
			if claim := day.FurtherClaims(span.Status)[f.Claim]; isClaim(claim.User, claim.Job) {
				d.row[f.Snapshot] = f.Usage
			}
		}
	}
}
