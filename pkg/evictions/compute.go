package evictions

import (
	"math"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Run is a run on backfill as a window shows it.
type Run struct {
	*runs.Explained
	Machine *runs.Machine
	Until   pool.Micros  // its end, cut to the window
	Result  runs.Outcome // Running when it ends after the window
	Inside  pool.Micros  // its time in the window
}

// Whole is the run's length until Until; where clocks differ by more than it, 0.
func (r *Run) Whole() pool.Micros { return max(0, r.Until-r.Start) }

// gpuHours is a length of the run times its GPUs.
func (r *Run) gpuHours(d pool.Micros) float64 { return pool.Hours(d) * float64(len(r.GPUs)) }

// collect returns the runs that overlap the window, by machine and first snapshot.
func collect(o *runs.Observed, x *runs.Explanations, w pool.Window) []Run {
	until := w.To // of runs that go on at the end of the data
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		until = o.View.Times[n-1]
	}
	n, since := 0, o.Since(w)
	for m := range x.Machines {
		n += len(x.Machines[m].Runs) + len(x.Machines[m].Unseen)
	}
	all := make([]Run, 0, n)
	for m := range o.Machines {
		machine := &o.Machines[m]
		add := func(e *runs.Explained) {
			e = e.From(o, since)
			r := Run{Explained: e, Machine: machine, Until: e.End, Result: e.Outcome}
			if e.Outcome == runs.Running {
				r.Until = max(until, e.Start)
			}
			if r.Until > w.To {
				r.Until, r.Result = w.To, runs.Running
			}
			if e.Start > w.To || r.Until < w.From {
				return
			}
			r.Inside = max(0, r.Until-max(e.Start, w.From))
			all = append(all, r)
		}
		for _, list := range [][]runs.Explained{x.Machines[m].Runs, x.Machines[m].Unseen} {
			for i := range list {
				if list[i].Side == pool.Backfill {
					add(&list[i])
				}
			}
		}
	}
	return all
}

// Sums are what a group of runs adds up to (methodology section 8).
type Sums struct {
	Runs     int
	Unseen   int
	Outcomes [runs.Outcomes]int
	GPUHours float64
	Lost     float64   // GPU-hours of the evicted runs
	toEnd    []float64 // hours of the evicted runs
}

func (m *Sums) add(r *Run) {
	m.Runs++
	m.Outcomes[r.Result]++
	if r.Link == runs.AdOnly {
		m.Unseen++
	}
	m.GPUHours += r.gpuHours(r.Inside)
	if r.Result == runs.Evicted {
		m.Lost += r.gpuHours(r.Inside)
		m.toEnd = append(m.toEnd, pool.Hours(r.Whole()))
	}
}

// metric returns a metric; NaN where it has no value. hours are the GPU-hours that a rate counts over, blind says that
// completions cannot be seen.
func (m *Sums) metric(name string, hours float64, blind bool) float64 {
	evictions := m.Outcomes[runs.Evicted]
	switch name {
	case "runs":
		return float64(m.Runs)
	case "evictions":
		return float64(evictions)
	case "completed":
		return float64(m.Outcomes[runs.Completed])
	case "removed":
		return float64(m.Outcomes[runs.Removed])
	case "held":
		return float64(m.Outcomes[runs.Held])
	case "running":
		return float64(m.Outcomes[runs.Running])
	case "lost":
		return float64(m.Outcomes[runs.Lost])
	case "ambiguous":
		return float64(m.Outcomes[runs.Ambiguous])
	case "unseen":
		return float64(m.Unseen)
	case "gpuHours":
		return m.GPUHours
	case "ratePer100GpuHours":
		return rate(float64(evictions), hours)
	case "rateLow":
		low, _ := survival.Garwood(evictions)
		return rate(low, hours)
	case "rateHigh":
		_, high := survival.Garwood(evictions)
		return rate(high, hours)
	case "lostGpuHours":
		return m.Lost
	case "lostPercent":
		return share(m.Lost, m.GPUHours)
	}
	if blind {
		return math.NaN()
	}
	if name == "evictedPercent" {
		ended := evictions + m.Outcomes[runs.Completed] + m.Outcomes[runs.Removed] + m.Outcomes[runs.Held]
		return share(float64(evictions), float64(ended))
	}
	if len(m.toEnd) == 0 {
		return math.NaN()
	}
	return pool.Median(m.toEnd)
}

// leastHours are the GPU-hours below which there is no rate: it would say nothing (methodology section 8).
const leastHours = 1

// tooFew reports whether there is no rate over so many GPU-hours.
func tooFew(hours float64) bool {
	return hours < leastHours*(1-1e-9) // a sum of hours is as exact as floating point is
}

// rate is events per 100 GPU-hours, NaN over too few of them.
func rate(events, hours float64) float64 {
	if tooFew(hours) {
		return math.NaN()
	}
	return 100 * events / hours
}

// share is 100·a/b, NaN when b is 0.
func share(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return 100 * a / b
}

// group is what runs are counted under; what is not asked for is zero.
type group struct {
	place    runs.Place
	shared   bool
	user     timeline.Symbol
	cause    runs.Cause
	evidence runs.Evidence
}

// grouping forms groups.
type grouping struct {
	by    []string
	names []string
	shown func(column, stored string) string // as answers show it
}

// byEviction reports whether the grouping knows evictions only: what did not end so has no cause, and its evidence says
// of something else (methodology section 8).
func (g *grouping) byEviction() bool { return ByEviction(g.by) }

// ByEviction reports whether groupings know evictions only.
func ByEviction(groupings []string) bool {
	return slices.Contains(groupings, "cause") || slices.Contains(groupings, "evidence")
}

// of returns a run's group. whole leaves cause and evidence out: the group whose GPU-hours a rate counts over.
func (g *grouping) of(r *Run, whole bool) (k group) {
	for _, name := range g.by {
		switch name {
		case "category", "ownership":
			k.place.Ownership = r.Place.Ownership
		case "device":
			k.place.Device = r.Place.Device
		case "machineType":
			k.shared = r.Place.Ownership == pool.OpenCapacity
		case "machine":
			k.place.Machine = r.Place.Machine
		case "user":
			k.user = r.User
		case "cause":
			if !whole {
				k.cause = r.Cause
			}
		case "evidence":
			if !whole {
				k.evidence = r.Evidence
			}
		}
	}
	return k
}

// texts are a group's values.
func (g *grouping) texts(k group) []string {
	values := make([]string, len(g.by))
	for i, name := range g.by {
		switch name {
		case "user":
			values[i] = g.shown(name, g.names[k.user])
		case "cause":
			values[i] = k.cause.String()
		case "evidence":
			values[i] = k.evidence.String()
		case "machineType":
			values[i] = pool.ResearcherOwned.MachineType()
			if k.shared {
				values[i] = pool.OpenCapacity.MachineType()
			}
		default:
			values[i] = g.shown(name, k.place.Text(name, g.names))
		}
	}
	return values
}

// items are the runs as a survival curve takes them: eviction is the event, another end that is seen competes, and what
// goes on or was lost from sight is censored.
func items(all []*Run, w pool.Window) []survival.Item {
	list := make([]survival.Item, len(all))
	for i, r := range all {
		fate := survival.Competing
		switch r.Result {
		case runs.Evicted:
			fate = survival.Event
		case runs.Running, runs.Lost, runs.Ambiguous:
			fate = survival.Censored
		}
		list[i] = survival.Item{Entry: max(0, w.From-r.Start), Exit: r.Whole(), Fate: fate}
	}
	return list
}
