package runs

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Observed is what snapshots alone say about the backfill pool.
type Observed struct {
	View     *timeline.View
	First    int       // the first observed snapshot
	End      int       // behind the last one
	Machines []Machine // by name; excluded ones are left out
	GPUs     int       // of all machines

	dayOf   []int32 // of each snapshot
	gaps    []int32 // see gapsAfter
	days    []day
	indexed func() *jobIndex
}

// Observe reads the snapshots of a range of time.
func Observe(ctx context.Context, v *timeline.View, reach pool.Window, lists pool.Lists) (*Observed, error) {
	o := &Observed{View: v, days: make([]day, len(v.Days))}
	o.dayOf = make([]int32, len(v.Times))
	for k, base := range v.Base {
		for i := range v.Days[k].Times {
			o.dayOf[base+i] = int32(k)
		}
	}
	o.gaps = gapsAfter(v)
	o.indexed = sync.OnceValue(o.index)
	o.First, o.End = v.Snapshots(reach)
	if o.First == o.End {
		return o, nil
	}
	firstDay, lastDay := v.DayAt(o.First), v.DayAt(o.End-1)
	err := Parallel(ctx, lastDay-firstDay+1, func(i int) { o.days[firstDay+i].read(v, firstDay+i) })
	if err != nil {
		return nil, err
	}
	o.list(firstDay, lastDay, lists)
	err = Parallel(ctx, len(o.Machines), func(i int) {
		w := walker{observed: o, machine: &o.Machines[i], gaps: o.gaps, firstDay: firstDay, lastDay: lastDay}
		w.run()
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Parallel calls do(0) … do(n−1) on all cores.
func Parallel(ctx context.Context, n int, do func(int)) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				do(i)
			}
		})
	}
	return group.Wait()
}

// day is a day of the view with its statuses read once.
type day struct {
	statuses []status
	pool     []bool  // GPUs of the day with a backfill row
	of       []int32 // the day's index of each GPU of the timeline, −1 without a row
}

// status is a timeline.Status as far as the pool is concerned.
type status struct {
	state   State
	job     timeline.Job    // of the claim that gives the state: on primary when Taken, on backfill when Used
	user    timeline.Symbol // its RemoteOwner
	project timeline.Symbol // of the row that gives the state
	extra   []timeline.Claim
	stale   timeline.Job // of a Claimed backfill row beside the primary claim
}

func (d *day) read(v *timeline.View, index int) {
	of := v.Days[index]
	backfill := make([]bool, of.Statuses())
	d.statuses = make([]status, of.Statuses())
	for s := range d.statuses {
		d.statuses[s], backfill[s] = statusOf(of.Status(uint32(s)))
	}
	d.pool = make([]bool, of.GPUs())
	d.of = slices.Repeat([]int32{-1}, v.Names.GPUs())
	for i := range d.pool {
		d.of[of.GPU(i)] = int32(i)
		_, statuses := of.Spans(i)
		for _, s := range statuses {
			if backfill[s] {
				d.pool[i] = true
				break
			}
		}
	}
}

func statusOf(t timeline.Status) (s status, backfill bool) {
	backfill = t.Backfill.State != pool.None
	side := pool.Backfill
	s.project = t.Backfill.Project
	switch {
	case t.Silent:
		s.state = Unknown
	case t.Primary.State == pool.Claimed:
		s = status{state: Taken, job: t.Primary.Job, user: t.Primary.User, project: t.Primary.Project}
		side = pool.Primary
		if t.Backfill.State == pool.Claimed {
			s.stale = t.Backfill.Job
		}
	case t.Backfill.State == pool.Claimed:
		s.state, s.job, s.user = Used, t.Backfill.Job, t.Backfill.User
	case t.Backfill.State == pool.Unclaimed:
		s.state = Available
	case backfill:
		s.state = Blocked
	default:
		s.state = Absent
	}
	if s.state == Taken || s.state == Used {
		for _, e := range t.Extra {
			if e.Side == side {
				s.extra = append(s.extra, e)
			}
		}
	}
	return s, backfill
}

// equal tells whether two statuses are one state with one job.
func (s *status) equal(t *status) bool {
	return s.state == t.state && s.job == t.job && (s.user == t.user || !s.job.IsNone())
}

// same tells besides whether all other claims are the same.
func (s *status) same(t *status) bool {
	return s.equal(t) && s.stale == t.stale && slices.Equal(s.extra, t.extra)
}

// inPool tells whether a GPU is in the pool on a day: it has a backfill row on it or on the UTC day before.
func (o *Observed) inPool(g timeline.GPU, day int) bool {
	on := func(day int) bool {
		d := &o.days[day]
		return int(g) < len(d.of) && d.of[g] >= 0 && d.pool[d.of[g]]
	}
	return on(day) || day > 0 && o.View.Days[day-1].Date == o.View.Days[day].Date-1 && on(day-1)
}

// list finds the machines and GPUs of the pool, and what each GPU is counted under on each day.
func (o *Observed) list(firstDay, lastDay int, lists pool.Lists) {
	v := o.View
	names := v.Names.Texts()
	machines := map[timeline.Symbol]int{}
	seen := make([]bool, v.Names.GPUs())
	for k := firstDay; k <= lastDay; k++ {
		for i, in := range o.days[k].pool {
			g := v.Days[k].GPU(i)
			if !in || seen[g] {
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
				o.GPUs++
			}
		}
	}
	slices.SortFunc(o.Machines, func(a, b Machine) int { return cmp.Compare(names[a.Name], names[b.Name]) })
	for m := range o.Machines {
		machine := &o.Machines[m]
		slices.SortFunc(machine.GPUs, func(a, b GPU) int { return cmp.Compare(names[a.ID], names[b.ID]) })
		chtc := lists.CHTCOwned[names[machine.Name]]
		for g := range machine.GPUs {
			machine.GPUs[g].places = o.places(machine.GPUs[g].GPU, machine.Name, firstDay, lastDay, chtc)
		}
	}
}

// places returns what a GPU is counted under on each day: on a day without rows of its own as on the day before
// (methodology section 12).
func (o *Observed) places(g timeline.GPU, machine timeline.Symbol, firstDay, lastDay int, chtcOwned bool) []Place {
	places := make([]Place, len(o.View.Days))
	for k := firstDay; k <= lastDay; k++ {
		d := o.View.Days[k]
		if i := o.dayIndex(k, g); i >= 0 {
			places[k] = Place{machine, d.Model(i).Device, d.Machines()[d.MachineOf(i)].Ownership(chtcOwned)}
		} else if k > 0 {
			places[k] = places[k-1]
		}
	}
	return places
}

// dayIndex is a GPU's index on a day of the view, −1 without a row.
func (o *Observed) dayIndex(day int, g timeline.GPU) int {
	if of := o.days[day].of; int(g) < len(of) {
		return int(of[g])
	}
	return -1
}

// GapAfter tells whether there is a gap right after a snapshot.
func (o *Observed) GapAfter(snapshot int32) bool { return o.gaps[snapshot] == snapshot }

// gapsAfter tells of each snapshot which is the first one, from itself on, with a gap behind it; the number of
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
