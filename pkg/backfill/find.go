package backfill

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// finder finds the periods of an answer on a machine.
type finder struct {
	*answer
	since   int32 // the first snapshot of the evidence before the window
	machine int
	measure measure
	holes   [][]hole // by the number of the GPU in the machine
}

// found are the periods of a machine.
type found struct {
	periods [measures][]*Period // those that overlap the window and pass the filter, by GPU and time
	tenures []*Period           // all before they are cut to the window; only for statistics on jobs
	// marked are the runs that bound periods which reach the window; for statistics on jobs also those that began in one.
	marked []bool
}

// find finds the periods of the answer, and says how well the ads describe the runs that bound them.
func (a *answer) find(ctx context.Context) error {
	o := a.Observed
	var known [measures][][]Period
	for _, m := range a.wanted {
		var err error
		if known[m], err = a.periodsByMachine(ctx, m); err != nil {
			return fmt.Errorf("listing periods: %w", err)
		}
	}
	// Find the window's periods, machine by machine.
	machines, since := make([]found, len(o.Machines)), o.Since(a.Plan.Window)
	err := parallel.Each(ctx, len(machines), func(machine int) {
		f := finder{answer: a, since: since, machine: machine}
		machines[machine] = f.collect(&known)
	})
	if err != nil {
		return fmt.Errorf("listing periods: %w", err)
	}
	for _, m := range a.wanted {
		lists := make([][]*Period, len(machines))
		for i := range machines {
			lists[i] = machines[i].periods[m]
		}
		a.periods[m] = slices.Concat(lists...)
	}
	if err := parallel.Each(ctx, len(a.wanted), func(i int) { a.addUp(a.wanted[i]) }); err != nil {
		return fmt.Errorf("adding up periods: %w", err)
	}
	// Say how many of the runs that bound them have an ad.
	if a.History.Sharp || a.isOnJobs() {
		bounding := a.History.Choose(func(machine, run int) bool { return machines[machine].marked[run] })
		if a.History.Sharp {
			linked.ShareOf(a.History.Explanations, a.Plan.Now, bounding).Tell("bound periods and ",
				"most periods start and end at snapshots, half a cadence off on average", a.About)
		}
		if a.isOnJobs() {
			a.follow(machines, bounding)
		}
	}
	a.tellPeriods()
	return nil
}

// periodsByMachine returns the periods of all machines by a measure, by GPU and time, before unseen runs split them and
// a window cuts them. They are kept with the history, so that the panels of a dashboard share them.
func (a *answer) periodsByMachine(ctx context.Context, m measure) ([][]Period, error) {
	if kept, ok := a.History.Derived.Load(m); ok {
		return kept.([][]Period), nil
	}
	o := a.Observed
	machines := make([][]Period, len(o.Machines))
	err := parallel.EachWith(ctx, len(machines), func(periods *[]Period, machine int) {
		*periods = (*periods)[:0]
		for g := range o.Machines[machine].GPUs {
			*periods = m.periodsOf(o, &o.Machines[machine].GPUs[g], g, *periods)
		}
		if a.History.Sharp {
			for i := range *periods {
				(*periods)[i].sharpen(o, &a.History.Machines[machine])
			}
		}
		machines[machine] = slices.Clone(*periods)
	})
	if err == nil {
		a.History.Derived.Store(m, machines)
	}
	return machines, err
}

// collect finds the periods of the machine in the window.
func (f *finder) collect(known *[measures][][]Period) (of found) {
	o, w, machine := f.Observed, f.Plan.Window, &f.Observed.Machines[f.machine]
	of.marked = make([]bool, len(machine.Runs))
	for _, f.measure = range f.wanted {
		periods := known[f.measure][f.machine]
		f.readHoles()
		if f.isOnJobs() {
			f.markStarted(periods, of.marked)
		}
		kept := make([]*Period, 0, len(periods))
		for i := range periods {
			p := &periods[i]
			reaches := f.reaches(p)
			if !reaches && !f.isOnJobs() { // which also read the tenures before the window
				continue
			}
			p = p.until(o, w.To).from(o, &machine.GPUs[p.gpu], f.since)
			for _, run := range [2]int32{p.startRun, p.endRun} {
				if run >= 0 && reaches {
					of.marked[run] = true
				}
			}
			f.split(p, func(part *Period) {
				if f.isOnJobs() {
					of.tenures = append(of.tenures, part)
				}
				part = part.in(w)
				if part != nil && f.passes(part.Place, part.Project) {
					kept = append(kept, part)
				}
			})
		}
		of.periods[f.measure] = kept
	}
	return of
}

// reaches reports whether a period does not end before the window by the snapshots.
func (f *finder) reaches(p *Period) bool {
	next := int(p.last) + 1
	return next >= f.Observed.End || f.Observed.View.Times[next] >= f.Plan.Window.From
}

// markStarted marks the backfill runs that begin in one of the machine's tenures which reaches the window.
func (f *finder) markStarted(tenures []Period, marked []bool) {
	for r := range f.Observed.Machines[f.machine].Runs {
		run := &f.Observed.Machines[f.machine].Runs[r]
		if run.Side != pool.Backfill || run.Last < f.since {
			continue
		}
		i := sort.Search(len(tenures), func(i int) bool {
			p := &tenures[i]
			return p.gpu > run.Leader || p.gpu == run.Leader && p.last >= run.First
		})
		if i < len(tenures) && tenures[i].gpu == run.Leader && tenures[i].first <= run.First && f.reaches(&tenures[i]) {
			marked[r] = true
		}
	}
}

// hole is an unseen run on a GPU. Periods leave out its time (methodology section 7).
type hole struct {
	run   *runs.Explained
	until pool.Micros // the latest end of this and the runs before
}

// readHoles sorts the machine's unseen runs by GPU. Backfill jobs end vacancies; tenures only where an owner preempted
// them.
func (f *finder) readHoles() {
	f.holes = make([][]hole, len(f.Observed.Machines[f.machine].GPUs))
	unseen := f.History.Machines[f.machine].Unseen
	for i := range unseen {
		h := hole{run: &unseen[i]}
		if f.measure == tenure && h.run.Side == pool.Backfill && !h.preempted() {
			continue
		}
		for _, g := range h.run.GPUs {
			h.until = h.run.End
			if n := len(f.holes[g]); n > 0 {
				h.until = max(h.until, f.holes[g][n-1].until)
			}
			f.holes[g] = append(f.holes[g], h)
		}
	}
}

// preempted reports whether it is a run on backfill that an owner ended.
func (h *hole) preempted() bool {
	return h.run.Side == pool.Backfill && h.run.Outcome == runs.Evicted && h.run.Cause == runs.OwnerPreemption
}

// split yields the parts that unseen runs leave of a period.
func (f *finder) split(p *Period, yield func(*Period)) {
	holes := f.holes[p.gpu]
	for _, h := range holes[sort.Search(len(holes), func(i int) bool { return holes[i].until > p.Start }):] {
		if h.run.Start >= p.End {
			break
		}
		if h.run.End <= p.Start {
			continue
		}
		taken := h.preempted() && f.takenAfter(p.gpu, h.run.End)
		if f.measure == tenure && h.run.Side == pool.Backfill {
			if taken && h.run.End < p.End { // the owner has it from then on
				before := *p
				before.End, before.Reason = h.run.End, Reclaimed
				p = &before
				break
			}
			continue
		}
		if h.run.Start > p.Start {
			before := *p
			before.End, before.Reason, before.Link, before.Job = h.run.Start, Claimed, h.run.Link, h.run.Job
			if h.run.Side == pool.Primary {
				before.Reason = Reclaimed
			}
			yield(&before)
		}
		if h.run.End >= p.End || taken {
			return
		}
		after := *p
		after.Start, after.Beginning = h.run.End, Seen
		p = &after
	}
	yield(p)
}

// takenAfter reports whether an owner has a GPU of the machine at the first snapshot after a time.
func (f *finder) takenAfter(gpu int32, at pool.Micros) bool {
	o := f.Observed
	of := &o.Machines[f.machine].GPUs[gpu]
	next := sort.Search(len(o.View.Times), func(i int) bool { return o.View.Times[i] > at })
	return next >= o.First && next < o.End && of.Segments[of.At(int32(next))].State == runs.Taken
}
