package utilization

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

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
		version = (version ^ r.blocks[k-r.first].Number()) * 1099511628211 // FNV-1a, by words
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
			primary, backfill := day.StatusRows(span.Status)
			of := day.Row([...]uint32{pool.Primary: primary, pool.Backfill: backfill}[run.Side])
			if of.State != pool.Claimed || !isClaim(of.User, r.jobs[k]().Of(span.Status, run.Side)) {
				continue
			}
			for s := span.First; s < span.End; s++ {
				if values[s] >= 0 {
					d.row[s] = values[s]
				}
			}
		}
	}
	for _, f := range r.blocks[k].Further() {
		if f.GPU != int(index) || f.Side != run.Side || f.Snapshot < from || f.Snapshot > to {
			continue
		}
		for span := range day.SpansIn(f.GPU, f.Snapshot, f.Snapshot+1) {
			if claim := day.Status(span.Status).Extra[f.Claim]; isClaim(claim.User, claim.Job) {
				d.row[f.Snapshot] = f.Usage
			}
		}
	}
}
