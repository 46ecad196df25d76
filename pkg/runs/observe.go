package runs

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Observed is the history of GPUs and their runs by snapshots only. It is never changed; histories, and values that
// kinds derive from it, are cached with it.
type Observed struct {
	View     *timeline.View
	First    int       // the first observed snapshot
	End      int       // after the last one
	Machines []Machine // by name; excluded ones are left out

	firstDay, lastDay int     // the view's days with observed snapshots
	gaps              []int32 // see gapsAfter
	jobs              func() *jobIndex

	turn  *semaphore.Weighted              // one lookup of ads at a time; a waiting caller leaves at its own deadline
	kept  *History                         // the history by ads: the panels of a dashboard request it one after another
	plain *otter.Cache[struct{}, *History] // the history from snapshots only
}

// Observe reads the snapshots of a range of time.
func Observe(ctx context.Context, v *timeline.View, reach pool.Window, lists pool.Lists) (*Observed, error) {
	o := &Observed{View: v, gaps: gapsAfter(v), turn: semaphore.NewWeighted(1),
		plain: otter.Must(&otter.Options[struct{}, *History]{Executor: func(maintain func()) { maintain() }})}
	o.jobs = sync.OnceValue(o.indexJobs)
	o.First, o.End = v.Snapshots(reach)
	if o.First == o.End {
		return o, nil
	}
	o.firstDay, o.lastDay = v.DayAt(o.First), v.DayAt(o.End-1)
	o.list(lists)
	days := make([]day, len(v.Days))
	err := parallel.Each(ctx, o.lastDay-o.firstDay+1, func(_ *struct{}, i int) {
		days[o.firstDay+i].read(v, o.firstDay+i, lists)
	})
	if err != nil {
		return nil, err
	}
	o.place(days)
	err = parallel.Each(ctx, len(o.Machines), func(w *segmenter, i int) {
		w.observed, w.days, w.machine = o, days, &o.Machines[i]
		w.run()
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// day is a day of the view with its statuses read once.
type day struct {
	statuses []status
	others   []*others // by status; nil if it has none
	pool     []bool    // GPUs of the day with a backfill row
	machines []bool    // machines of the day with one
	of       []int32   // the day's index of each GPU of the timeline, −1 without a row
	places   []timeline.Place
}

// status is a timeline.Status as far as the pool is concerned.
type status struct {
	job     timeline.Job    // the job whose claim gives the state: on primary when Taken, on backfill when Used
	user    timeline.Symbol // its RemoteOwner
	project timeline.Symbol // the projects in the row that gives the state
	state   State
}

// others are claims in addition to the one that gives the state.
type others struct {
	extra []timeline.Claim // on the same side
	stale []timeline.Job   // the jobs of Claimed backfill rows next to the primary claim
}

func (d *day) read(v *timeline.View, index int, lists pool.Lists) {
	of := v.Days[index]
	d.places = of.Counted(v.Names.Texts(), lists)
	backfill := make([]bool, of.Statuses())
	d.statuses, d.others = make([]status, of.Statuses()), make([]*others, of.Statuses())
	jobs := of.Jobs()
	for i := range d.statuses {
		t := of.Status(uint32(i))
		s, other := statusOf(&t, jobs.Of(uint32(i), pool.Primary), jobs.Of(uint32(i), pool.Backfill))
		backfill[i] = t.Backfill.State != pool.None
		if other.extra != nil || other.stale != nil {
			kept := other // most statuses have none: they take no memory
			d.others[i] = &kept
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

// place finds the places under which each machine and GPU is counted, by day.
func (o *Observed) place(days []day) {
	numbers := make(map[timeline.Symbol]int, len(o.Machines))
	for m := range o.Machines {
		machine := &o.Machines[m]
		numbers[machine.Name] = m
		machine.days = slices.Repeat([]machineDay{{index: -1}}, len(o.View.Days))
		for g := range machine.GPUs {
			machine.GPUs[g].places = o.places(days, machine.GPUs[g].GPU)
		}
	}
	for k, d := range o.View.Days {
		for i, of := range d.Machines() {
			if m, listed := numbers[of.Name]; listed && o.Machines[m].days[k].index < 0 {
				o.Machines[m].days[k] = machineDay{int32(i), i < len(days[k].machines) && days[k].machines[i]}
			}
		}
	}
}

// places returns the place of a GPU on each day: on a day without rows of its own as on the day before, before its first
// rows as on the first day that has some (methodology sections 8 and 12).
func (o *Observed) places(days []day, g timeline.GPU) []timeline.Place {
	places := make([]timeline.Place, len(o.View.Days))
	for k := o.firstDay; k <= o.lastDay; k++ {
		if i := days[k].index(g); i >= 0 {
			places[k] = days[k].places[i]
		} else if k > 0 {
			places[k] = places[k-1]
		}
	}
	if first := slices.IndexFunc(places, func(p timeline.Place) bool { return p.Machine != 0 }); first > 0 {
		copy(places, slices.Repeat(places[first:first+1], first))
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

// gapsAfter returns the first snapshot from each one on that a gap follows; without a gap the number of snapshots.
func gapsAfter(v *timeline.View) []int32 {
	gaps := make([]int32, len(v.Times)+1)
	gaps[len(v.Times)] = int32(len(v.Times))
	for k := len(v.Days) - 1; k >= 0; k-- {
		base := v.Base[k]
		for s := base + len(v.Days[k].Times) - 1; s >= base; s-- {
			gaps[s] = gaps[s+1]
			if v.GapAfter(s) {
				gaps[s] = int32(s)
			}
		}
	}
	return gaps
}
