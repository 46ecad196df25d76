package backfill

import (
	"context"
	"fmt"
	"sort"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// finder finds the periods of an answer, machine by machine.
type finder struct {
	*answer
	chosen  *runs.Chosen
	since   int32 // the first snapshot of the evidence before the window
	machine int
	measure measure
	found   []Period // of the machine that matter, by GPU and time, as the snapshots show them
	holes   [][]hole // of each GPU of the machine
}

// found are the periods of a machine.
type found struct {
	periods [measures][]Period // those that overlap the window and pass the filter, by GPU and time
	tenures []Period           // all before they are cut to the window; only for statistics on jobs
	// marked are the runs that bound periods which reach the window; for statistics on jobs also those that began in one.
	marked []bool
}

// find finds the periods of the answer, and says how well the ads describe the runs that bound them.
func (a *answer) find(ctx context.Context) error {
	o := a.Observed
	machines := make([]found, len(o.Machines))
	err := parallel.Each(ctx, len(machines), func(f *finder, machine int) {
		if f.answer == nil {
			*f = finder{answer: a, chosen: a.newFilter(), since: o.Since(a.Plan.Window)}
		}
		machines[machine] = f.on(machine)
	})
	if err != nil {
		return fmt.Errorf("listing periods: %w", err)
	}
	for _, m := range a.wanted {
		n := 0
		for i := range machines {
			n += len(machines[i].periods[m])
		}
		a.periods[m] = make([]*Period, 0, n)
		for i := range machines {
			for j := range machines[i].periods[m] {
				a.periods[m] = append(a.periods[m], &machines[i].periods[m][j])
			}
		}
	}
	if err := parallel.Each(ctx, len(a.wanted), func(_ *struct{}, i int) { a.addUp(a.wanted[i]) }); err != nil {
		return fmt.Errorf("adding up periods: %w", err)
	}
	if a.Known.Sharp || a.ofJobs() {
		bounding := a.Known.Choose(func(machine, run int) bool { return machines[machine].marked[run] })
		if a.Known.Sharp {
			linked.ShareOf(a.Known.Explanations, a.Plan.Now, bounding).Tell("bound periods and ",
				"most periods start and end at snapshots, half a cadence off on average", a.About)
		}
		if a.ofJobs() {
			a.follow(machines, bounding)
		}
	}
	a.tellPeriods()
	return nil
}

// on finds the periods of a machine: by the snapshots, then as its runs explain them.
func (f *finder) on(machine int) (of found) {
	o, w := f.Observed, f.Plan.Window
	f.machine, of.marked = machine, make([]bool, len(o.Machines[machine].Runs))
	for _, f.measure = range f.wanted {
		f.found = f.found[:0]
		for g := range o.Machines[machine].GPUs {
			f.read(g)
		}
		f.readHoles()
		if f.ofJobs() {
			f.markStarted(of.marked)
		}
		kept := make([]Period, 0, len(f.found))
		for i := range f.found {
			p := &f.found[i]
			if f.Known.Sharp {
				p.sharpen(o, &f.Known.Machines[machine])
			}
			p.from(o, &o.Machines[machine].GPUs[p.gpu], f.since)
			for _, run := range [2]int32{p.startRun, p.endRun} {
				if run >= 0 && f.reaches(p) {
					of.marked[run] = true
				}
			}
			f.split(*p, func(part Period) {
				if f.ofJobs() {
					of.tenures = append(of.tenures, part)
				}
				if part.cut(w) && f.chosen.Place(part.Place) && f.chosen.Project(part.Project) {
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

// markStarted marks the backfill runs that begin in a tenure which reaches the window.
func (f *finder) markStarted(marked []bool) {
	for r := range f.Observed.Machines[f.machine].Runs {
		run := &f.Observed.Machines[f.machine].Runs[r]
		if run.Side != pool.Backfill || run.Last < f.since {
			continue
		}
		i := sort.Search(len(f.found), func(i int) bool {
			p := &f.found[i]
			return p.gpu > run.Leader || p.gpu == run.Leader && p.last >= run.First
		})
		if i < len(f.found) && f.found[i].gpu == run.Leader && f.found[i].first <= run.First && f.reaches(&f.found[i]) {
			marked[r] = true
		}
	}
}
