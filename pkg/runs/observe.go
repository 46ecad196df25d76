package runs

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Observed is what snapshots alone say about GPUs and their runs. It is never changed; what is known of it from job ads
// is kept with it.
type Observed struct {
	View     *timeline.View
	First    int       // the first observed snapshot
	End      int       // behind the last one
	Machines []Machine // by name; excluded ones are left out

	firstDay, lastDay int     // of the view, that hold observed snapshots
	dayOf             []int32 // the day of each snapshot
	gaps              []int32 // see gapsAfter
	jobs              func() *jobIndex
	known             knowing
	derived           derived
}

// Observe reads the snapshots of a range of time.
func Observe(ctx context.Context, v *timeline.View, reach pool.Window, lists pool.Lists) (*Observed, error) {
	return observe(ctx, v, reach, lists, nil)
}

// observe is Observe that takes over what an earlier observation with the same lists found; nil: nothing.
func observe(ctx context.Context, v *timeline.View, reach pool.Window, lists pool.Lists, earlier *Observed) (*Observed,
	error) {
	o := &Observed{View: v, gaps: gapsAfter(v), dayOf: make([]int32, 0, len(v.Times)),
		known: knowing{turn: semaphore.NewWeighted(1)}}
	for k := range v.Days {
		o.dayOf = append(o.dayOf, slices.Repeat([]int32{int32(k)}, len(v.Days[k].Times))...)
	}
	o.jobs = sync.OnceValue(func() *jobIndex { return o.indexJobs() })
	o.First, o.End = v.Snapshots(reach)
	if o.First == o.End {
		return o, nil
	}
	o.firstDay, o.lastDay = v.DayAt(o.First), v.DayAt(o.End-1)
	o.list(lists)
	rests, err := o.rests(ctx, earlier)
	if err != nil {
		return nil, err
	}
	days, err := o.read(ctx, rests)
	if err != nil {
		return nil, err
	}
	o.place(days, rests, lists)
	err = parallel.Each(ctx, len(o.Machines), func(w *walker, i int) {
		w.observed, w.days, w.machine, w.rest = o, days, &o.Machines[i], &rests[i]
		w.run()
	})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(rests, func(r rest) bool { return r.differs }) {
		return observe(ctx, v, reach, lists, nil)
	}
	o.indexAfter(earlier, rests)
	if earlier != nil && o.sameGPUs(earlier) {
		o.derived.earlier = earlier.derived.again(&Same{observed: o, settled: o.settledAfter(earlier)})
	}
	return o, nil
}

// read reads the days that are walked, and the one before: a GPU is in the pool the day after it had a backfill row.
func (o *Observed) read(ctx context.Context, rests []rest) ([]day, error) {
	first := o.lastDay
	for m := range rests {
		first = min(first, int(o.dayOf[rests[m].from]))
	}
	first = max(first-1, o.firstDay)
	days := make([]day, len(o.View.Days))
	err := parallel.Each(ctx, o.lastDay-first+1, func(_ *struct{}, i int) { days[first+i].read(o.View, first+i) })
	return days, err
}

// day is a day of the view with its statuses read once.
type day struct {
	statuses []status
	others   map[uint32]*others // of statuses that have any
	pool     []bool             // GPUs of the day with a backfill row
	machines []bool             // machines of the day with one
	of       []int32            // the day's index of each GPU of the timeline, −1 without a row
}

// status is a timeline.Status as far as the pool is concerned.
type status struct {
	job     timeline.Job    // of the claim that gives the state: on primary when Taken, on backfill when Used
	user    timeline.Symbol // its RemoteOwner
	project timeline.Symbol // of the row that gives the state
	state   State
	others  bool
}

// others are claims beside the one that gives the state.
type others struct {
	extra []timeline.Claim // on the same side
	stale []timeline.Job   // of Claimed backfill rows beside the primary claim
}

func (d *day) read(v *timeline.View, index int) {
	of := v.Days[index]
	backfill := make([]bool, of.Statuses())
	d.statuses, d.others = make([]status, of.Statuses()), map[uint32]*others{}
	jobs := of.Jobs()
	for i := range d.statuses {
		t := of.Status(uint32(i))
		s, other := statusOf(&t, jobs.Of(uint32(i), pool.Primary), jobs.Of(uint32(i), pool.Backfill))
		backfill[i] = t.Backfill.State != pool.None
		if other.extra != nil || other.stale != nil {
			s.others = true
			kept := other // most statuses have none: they take no memory
			d.others[uint32(i)] = &kept
		}
		d.statuses[i] = s
	}
	d.pool, d.machines = make([]bool, of.GPUs()), make([]bool, len(of.Machines()))
	d.of = v.Places(index)
	for i := range d.pool {
		_, statuses := of.Spans(i)
		d.pool[i] = slices.ContainsFunc(statuses, func(s uint32) bool { return backfill[s] })
		d.machines[of.MachineOf(i)] = d.machines[of.MachineOf(i)] || d.pool[i]
	}
}

// statusOf takes a status with the jobs of its two rows.
func statusOf(t *timeline.Status, primary, backfill timeline.Job) (s status, o others) {
	s.project = t.Backfill.Project
	switch {
	case t.Silent:
		s.state = Unknown
	case t.Primary.State == pool.Claimed:
		s = status{state: Taken, job: primary, user: t.Primary.User, project: t.Primary.Project}
		if t.Backfill.State == pool.Claimed {
			o.stale = append(o.stale, backfill)
		}
	case t.Backfill.State == pool.Claimed:
		s.state, s.job, s.user = Used, backfill, t.Backfill.User
	case t.Backfill.State == pool.Unclaimed:
		s.state = Available
	case t.Backfill.State != pool.None:
		s.state = Blocked
	default:
		s.state = Absent
	}
	if s.state.claimed() {
		for _, e := range t.Extra {
			if e.Side == s.state.side() {
				o.extra = append(o.extra, e)
			} else if s.state == Taken {
				o.stale = append(o.stale, e.Job)
			}
		}
	}
	return s, o
}

// equal reports whether two statuses are one state with one job.
func (s *status) equal(t *status) bool {
	return s.state == t.state && s.job == t.job && (s.user == t.user || !s.job.IsNone())
}

// list finds the machines and GPUs.
func (o *Observed) list(lists pool.Lists) {
	v := o.View
	names := v.Names.Texts()
	machines := map[timeline.Symbol]int{}
	seen := make([]bool, v.Names.GPUs())
	for _, d := range v.Days[o.firstDay : o.lastDay+1] {
		for i := range d.GPUs() {
			g := d.GPU(i)
			if seen[g] {
				continue
			}
			seen[g] = true
			name, id := v.Names.GPU(g)
			m, known := machines[name]
			if !known {
				m = -1
				if lists.ExclusionOf(names[name]) == nil {
					m = len(o.Machines)
					o.Machines = append(o.Machines, Machine{Name: name})
				}
				machines[name] = m
			}
			if m >= 0 {
				o.Machines[m].GPUs = append(o.Machines[m].GPUs, GPU{GPU: g, ID: id})
			}
		}
	}
	slices.SortFunc(o.Machines, func(a, b Machine) int { return cmp.Compare(names[a.Name], names[b.Name]) })
	for m := range o.Machines {
		slices.SortFunc(o.Machines[m].GPUs, func(a, b GPU) int { return cmp.Compare(names[a.ID], names[b.ID]) })
	}
}

// place finds what each machine and GPU is counted under on each day.
func (o *Observed) place(days []day, rests []rest, lists pool.Lists) {
	names := o.View.Names.Texts()
	for m := range o.Machines {
		machine, r := &o.Machines[m], &rests[m]
		machine.days = o.machineDays(days, machine.Name, r)
		chtc := lists.CHTCOwned[names[machine.Name]]
		for g := range machine.GPUs {
			machine.GPUs[g].places = o.places(days, machine.GPUs[g].GPU, machine.Name, chtc, r.placesOf(g))
		}
	}
}

// machineDays returns what is known of a machine on each day.
func (o *Observed) machineDays(days []day, name timeline.Symbol, r *rest) []machineDay {
	known := make([]machineDay, len(o.View.Days))
	for k := copy(known, r.days()); k < len(known); k++ {
		d := o.View.Days[k]
		index := slices.IndexFunc(d.Machines(), func(m timeline.Machine) bool { return m.Name == name })
		known[k].index = int32(index)
		known[k].backfill = index >= 0 && index < len(days[k].machines) && days[k].machines[index]
	}
	return known
}

// places returns what a GPU is counted under on each day, on the first ones as is known: on a day without rows of its
// own as on the day before (methodology section 12).
func (o *Observed) places(days []day, g timeline.GPU, machine timeline.Symbol, chtcOwned bool, known []Place) []Place {
	places := make([]Place, len(o.View.Days))
	for k := max(copy(places, known), o.firstDay); k <= o.lastDay; k++ {
		d := o.View.Days[k]
		if i := days[k].index(g); i >= 0 {
			memory := slices.Index(pool.MemoryClasses, pool.MemoryClass(d.Model(i).Memory))
			places[k] = Place{machine, d.Model(i).Device, d.Machines()[d.MachineOf(i)].Ownership(chtcOwned), uint8(memory)}
		} else if k > 0 {
			places[k] = places[k-1]
		}
	}
	return places
}

// index is a GPU's index on the day, −1 without a row.
func (d *day) index(g timeline.GPU) int {
	if int(g) < len(d.of) {
		return int(d.of[g])
	}
	return -1
}

// GapAfter reports whether there is a gap right after a snapshot.
func (o *Observed) GapAfter(snapshot int32) bool { return o.gaps[snapshot] == snapshot }

// gapsAfter returns of each snapshot which is the first one, from itself on, with a gap behind it; the number of
// snapshots when there is none.
func gapsAfter(v *timeline.View) []int32 {
	gaps := make([]int32, len(v.Times)+1)
	gaps[len(v.Times)] = int32(len(v.Times))
	for k := len(v.Days) - 1; k >= 0; k-- {
		base := v.Base[k]
		limit := v.GapLimit(base)
		for s := base + len(v.Days[k].Times) - 1; s >= base; s-- {
			gaps[s] = gaps[s+1]
			if s+1 < len(v.Times) && v.Times[s+1]-v.Times[s] > limit {
				gaps[s] = int32(s)
			}
		}
	}
	return gaps
}
