package runs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/memory"
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

	turn  *semaphore.Weighted            // one lookup of ads at a time; a waiting caller leaves at its own deadline
	kept  *History                       // the history by ads: the panels of a dashboard request it one after another
	plain memory.Cache[string, *History] // the history from snapshots only
}

// Observe reads the snapshots of a range of time.
func Observe(ctx context.Context, v *timeline.View, reach pool.Window, lists pool.Lists) (*Observed, error) {
	o := &Observed{View: v, gaps: gapsAfter(v), turn: semaphore.NewWeighted(1),
		plain: memory.New(1, func(string, *History) int { return 1 })}
	o.jobs = sync.OnceValue(o.indexJobs)
	o.First, o.End = v.Snapshots(reach)
	if o.First == o.End {
		return o, nil
	}
	o.firstDay, o.lastDay = v.DayAt(o.First), v.DayAt(o.End-1)
	o.list(lists)
	days := make([]day, len(v.Days))
	err := parallel.Each(ctx, o.lastDay-o.firstDay+1, func(i int) {
		days[o.firstDay+i].read(v, o.firstDay+i, lists)
	})
	if err != nil {
		return nil, err
	}
	o.place(days)
	return o, parallel.EachWith(ctx, len(o.Machines), func(w *segmenter, i int) {
		w.Observed, w.days, w.machine = o, days, &o.Machines[i]
		w.run()
	})
}

// day is a day of the view with its statuses read once.
type day struct {
	statuses []status
	pool     []bool  // GPUs of the day with a backfill row
	machines []bool  // machines of the day with one
	of       []int32 // the day's index of each GPU of the timeline, −1 without a row
	places   []timeline.Place
}

// status is a status of a day as far as the pool is concerned.
type status struct {
	job     timeline.Job    // the job whose claim gives the state: on primary when Taken, on backfill when Used
	user    timeline.Symbol // its RemoteOwner
	project timeline.Symbol // the projects in the row that gives the state
	state   State
	extra   []timeline.Claim // further claims on the same side
	stale   []timeline.Job   // the jobs of Claimed backfill rows next to the primary claim
}

func (d *day) read(v *timeline.View, index int, lists pool.Lists) {
	of := v.Days[index]
	d.places = of.Counted(v.Names.Texts(), lists)
	jobs := of.Jobs()
	d.statuses = make([]status, len(jobs))
	for i := range d.statuses {
		d.statuses[i] = statusOf(of, uint32(i), jobs[i])
	}
	d.pool, d.machines = make([]bool, of.GPUs()), make([]bool, len(of.Machines))
	d.of = v.Places(index)
	inPool := func(s uint32) bool { return of.StatusRows(s)[pool.Backfill].State != pool.None }
	for i := range d.pool {
		_, statuses := of.Spans(i)
		d.pool[i] = slices.ContainsFunc(statuses, inPool)
		d.machines[of.MachineOf(i)] = d.machines[of.MachineOf(i)] || d.pool[i]
	}
}

// statusOf takes a status of a day with the jobs of its rows, by side.
func statusOf(d *timeline.Day, number uint32, jobs [2]timeline.Job) (s status) {
	rows := d.StatusRows(number)
	primary, backfill := rows[pool.Primary], rows[pool.Backfill]
	s.project = backfill.Project
	switch {
	case number == timeline.Silent:
		s.state = Unknown
	case primary.State == pool.Claimed:
		s = status{state: Taken, job: jobs[pool.Primary], user: primary.User, project: primary.Project}
		if backfill.State == pool.Claimed {
			s.stale = append(s.stale, jobs[pool.Backfill])
		}
	case backfill.State == pool.Claimed:
		s.state, s.job, s.user = Used, jobs[pool.Backfill], backfill.User
	case backfill.State == pool.Unclaimed:
		s.state = Available
	case backfill.State != pool.None:
		s.state = Blocked
	default:
		s.state = Absent
	}
	if s.state.claimed() {
		for _, e := range d.FurtherClaims(number) {
			if e.Side == s.state.side() {
				s.extra = append(s.extra, e)
			} else if s.state == Taken {
				s.stale = append(s.stale, e.Job)
			}
		}
	}
	return s
}

// equal reports whether two statuses are one state with one job.
func (s *status) equal(t *status) bool {
	return s.state == t.state && s.job == t.job && (s.user == t.user || !s.job.IsNone())
}

// list finds the machines and GPUs.
func (o *Observed) list(lists pool.Lists) {
	v := o.View
	names := v.Names.Texts()
	machines := map[timeline.Symbol][]GPU{}
	seen := make([]bool, v.Names.GPUs())
	for _, d := range v.Days[o.firstDay : o.lastDay+1] {
		for i := range d.GPUs() {
			if g := d.GPU(i); !seen[g] {
				seen[g] = true
				name, id := v.Names.GPU(g)
				machines[name] = append(machines[name], GPU{GPU: g, ID: id})
			}
		}
	}
	for name, gpus := range machines {
		if lists.ExclusionOf(names[name]) == nil {
			o.Machines = append(o.Machines, Machine{Name: name, GPUs: gpus})
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
		for i, of := range d.Machines {
			if m, listed := numbers[of.Name]; listed {
				o.Machines[m].days[k] = machineDay{int32(i), i < len(days[k].machines) && days[k].machines[i]}
			}
		}
	}
}

// places returns the place of a GPU on each day: on a day without rows of its own as on the day before, before its
// first rows as on the first day that has some (methodology sections 8 and 12).
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
	for s := range slices.Backward(v.Times) {
		gaps[s] = gaps[s+1]
		if v.GapAfter(s) {
			gaps[s] = int32(s)
		}
	}
	return gaps
}

// Observer observes a timeline, and caches observations with their histories, because the panels of a dashboard ask
// for one window at one moment. It is safe for concurrent use.
type Observer struct {
	timeline *timeline.Timeline
	cache    memory.Cache[string, *Observed] // by all that they are made from
	missing  atomic.Int64                    // bytes of the largest observation that is larger than the cache
}

// NewObserver returns an observer of a timeline whose cache is bounded to that many bytes.
func NewObserver(tl *timeline.Timeline, bytes uint64) *Observer {
	return &Observer{timeline: tl, cache: memory.New(bytes, func(_ string, o *Observed) int { return o.bytes() })}
}

// Close empties the cache.
func (w *Observer) Close() { w.cache.InvalidateAll() }

// MissingBytes is about how many bytes the largest observation takes that could not be cached; 0 without one.
func (w *Observer) MissingBytes() int { return int(w.missing.Load()) }

// ObserveWindow loads the snapshots of a window and of its reach, and observes the GPUs.
func (w *Observer) ObserveWindow(ctx context.Context, window pool.Window, lists pool.Lists) (*Observed, error) {
	v, err := w.Load(ctx, window)
	if err != nil {
		return nil, err
	}
	return w.Observe(ctx, v, window, lists)
}

// Load loads the snapshots of a window and of its reach.
func (w *Observer) Load(ctx context.Context, window pool.Window) (*timeline.View, error) {
	reach := reachOf(window)
	return w.timeline.Load(ctx, reach.From, reach.To)
}

// reachOf is a window with its reach. It begins with a UTC day, so that moving windows share an observation; a window's
// part of it begins at [Observed.Since].
func reachOf(window pool.Window) pool.Window {
	return pool.Window{From: pool.Micros(pool.DayOf(window.From-Reach)) * pool.Day, To: window.To + Reach}
}

// Observe observes the GPUs in the snapshots that were loaded for a window.
func (w *Observer) Observe(ctx context.Context, v *timeline.View, window pool.Window,
	lists pool.Lists) (*Observed, error) {
	reach := reachOf(window)
	first, end := v.Snapshots(reach)
	// The addresses of the days' segments are theirs alone, because the observation keeps them alive.
	key := pool.Key(v.Days, first, end, lists.Key())
	load := func(ctx context.Context, _ string) (*Observed, error) {
		o, err := Observe(ctx, v, reach, lists)
		if err == nil {
			w.makeRoom(o)
		}
		return o, err
	}
	o, err := w.cache.Get(ctx, key, otter.LoaderFunc[string, *Observed](load))
	if err != nil {
		return nil, fmt.Errorf("observing the pool: %w", err)
	}
	return o, nil
}

// makeRoom evicts the observations that no query can request anymore, because one of their days has changed since.
func (w *Observer) makeRoom(o *Observed) {
	if bytes := o.bytes(); uint64(bytes) > w.cache.GetMaximum() {
		w.missing.Store(max(w.missing.Load(), int64(bytes)))
	}
	days := make(map[int32]*timeline.Day, len(o.View.Days))
	for _, d := range o.View.Days {
		days[d.Date] = d
	}
	for key, kept := range w.cache.All() {
		if slices.ContainsFunc(kept.View.Days, func(d *timeline.Day) bool {
			return days[d.Date] != nil && days[d.Date] != d
		}) {
			w.cache.Invalidate(key)
		}
	}
}

// Since returns the first observed snapshot of a window's reach, before which no start is searched for (section 8).
func (o *Observed) Since(w pool.Window) int32 {
	first, _ := o.View.Snapshots(pool.Window{From: w.From - Reach, To: w.To})
	return int32(max(first, o.First))
}

// From returns a run as seen from a snapshot onward: a copy if it began earlier.
func (e *Explained) From(o *Observed, since int32) *Explained {
	if e.First >= since || e.Last < since {
		return e
	}
	run, cut := *e.Run, *e
	run.First, cut.Run = since, &run
	if !cut.StartByAd {
		cut.Start = o.View.Times[since]
	}
	return &cut
}

// bytes estimates the memory of an observation, with its histories.
func (o *Observed) bytes() int {
	// A run with its job in the index; a segment with the periods that are derived from it. A history takes at most three
	// quarters of the rest.
	const perSnapshot, perRun, perSegment, perPlace = 8, 248, 52, 16
	n := len(o.gaps) * perSnapshot
	for m := range o.Machines {
		n += len(o.Machines[m].Runs) * perRun
		for g := range o.Machines[m].GPUs {
			gpu := &o.Machines[m].GPUs[g]
			n += len(gpu.Segments)*perSegment + len(gpu.places)*perPlace
		}
	}
	return n / 4 * 7
}
