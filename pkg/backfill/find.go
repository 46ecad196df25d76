package backfill

import (
	"context"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/runs"
)

// known are the periods of all GPUs, by machine, GPU and time. They do not depend on a window, so that they are made
// once for each history of runs.
type known struct {
	// periods end where the runs that bound them do (if there are ads), and leave out the time of unseen runs. Those that
	// are open at the last observed snapshot are unchanged.
	periods []Period
	seen    []bounds // of the periods that the snapshots show, before unseen runs are left out
}

// periodsOf returns the periods of a measure. Errors are ctx's.
func periodsOf(ctx context.Context, o *runs.Observed, of *runs.Known, m measure) (*known, error) {
	return runs.Derived(ctx, of, m, func() (*known, error) {
		machines := make([]known, len(o.Machines))
		err := parallel.Each(ctx, len(o.Machines), func(found *[]Period, n int) {
			*found = (*found)[:0]
			for g := range o.Machines[n].GPUs {
				*found = find(*found, o, n, g, m)
			}
			machines[n].explain(o, of, m, *found)
		})
		if err != nil {
			return nil, err
		}
		all := &known{}
		for i := range machines {
			all.periods, all.seen = append(all.periods, machines[i].periods...), append(all.seen, machines[i].seen...)
		}
		return all, nil
	})
}

// explain adds the periods that the snapshots show of a machine, as its runs explain them.
func (k *known) explain(o *runs.Observed, of *runs.Known, m measure, found []Period) {
	split := splitter{measure: m, observed: o, explained: of.Explanations}
	for _, p := range found {
		k.seen = append(k.seen, p.bounds)
		if of.Sharp {
			p.sharpen(o, &of.Machines[p.machine])
		}
		if p.open { // split once its end is known
			k.periods = append(k.periods, p)
		} else {
			k.periods = append(k.periods, split.parts(p)...)
		}
	}
}

// in returns the periods that overlap a window and that a filter lets pass. whole gets all of them before they are cut
// to the window; nil gets none.
func (k *known) in(a *answer, m measure, whole gpuTenures) (found []Period) {
	o, w, chosen := a.observed, a.plan.Window, a.newFilter()
	since := o.Since(w)
	split := splitter{measure: m, observed: o, explained: a.explained}
	n := 0
	for i := range k.periods {
		if p := &k.periods[i]; p.open || p.Start <= w.To && p.End >= w.From {
			n++
		}
	}
	found = make([]Period, 0, n)
	for i := range k.periods {
		p := k.periods[i]
		parts := k.periods[i : i+1]
		if p.open || p.first <= since && p.last >= since {
			wasOpen := p.open
			p.close(o, w)
			p.from(o, since)
			if parts = []Period{p}; wasOpen {
				parts = split.parts(p)
			}
		}
		for _, part := range parts {
			whole.add(&part)
			part.open = false
			if part.cut(w) && chosen.Place(part.Place) && chosen.Project(part.Project) {
				found = append(found, part)
			}
		}
	}
	return found
}
