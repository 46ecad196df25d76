package backfill

import (
	"context"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/runs"
)

// transition is a change of state; used → used is a change of job.
type transition struct {
	group    group
	from, to runs.State
}

// switches are all changes of state between consecutive snapshots without a gap, at the later one: the value is the
// class there · States² + from · States + to.
type switches struct {
	classes *linked.Classes
	bySnapshot
}

const pairs = int32(runs.States * runs.States)

func switchesOf(ctx context.Context, o *runs.Observed) (*switches, error) {
	type key struct{}
	return runs.Derived(ctx, o, key{}, func() (*switches, error) {
		s := &switches{classes: &linked.Classes{}}
		inPool := func(s runs.State) bool { return s != runs.Unknown && s != runs.Outside }
		events := make([]event, 0, o.Segments())
		for m := range o.Machines {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			machine := &o.Machines[m]
			for i := range machine.GPUs {
				gpu := &machine.GPUs[i]
				for n := 1; n < gpu.Segments.Len(); n++ {
					before, after := gpu.Segments.At(n-1), gpu.Segments.At(n)
					if o.GapAfter(before.Last) || !inPool(before.State) || !inPool(after.State) {
						continue
					}
					if before.State == after.State && (after.State != runs.Used || sameJob(&machine.Runs, before, after)) {
						continue
					}
					of := s.classes.Number(linked.Class{Place: o.PlaceAt(gpu, after.First), Project: after.Project})
					events = append(events, event{after.First, of*pairs + int32(before.State)*int32(runs.States) +
						int32(after.State)})
				}
			}
		}
		s.bySnapshot = sortEvents(events, len(o.View.Times)+1)
		return s, nil
	})
}

// transitions counts the changes between consecutive snapshots without a gap, the later one in the window.
func transitions(ctx context.Context, o *runs.Observed, first, end int, g *grouping,
	chosen *runs.Chosen) (map[transition]int, error) {
	all, err := switchesOf(ctx, o)
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(all.classes.All)*int(pairs))
	for _, value := range all.values[all.begin[first]:all.begin[end]] {
		counts[value]++
	}
	groups, found := g.among(all.classes, chosen, 0), map[transition]int{}
	for value, n := range counts {
		if n == 0 {
			continue
		}
		k, err := groups.number(int32(value) / pairs)
		if err != nil {
			return nil, err
		}
		if k >= 0 {
			pair := value % int(pairs)
			found[transition{groups.keys.All[k], runs.State(pair / runs.States), runs.State(pair % runs.States)}] += n
		}
	}
	return found, nil
}

// sameJob reports whether one job holds a GPU in two used segments. Stale rows alone have no run: they are of another
// job.
func sameJob(all *runs.List[runs.Run], before, after *runs.Segment) bool {
	x, y := max(before.RunFirst, before.RunLast), max(after.RunFirst, after.RunLast)
	if x < 0 || y < 0 {
		return false
	}
	a, b := all.At(int(x)), all.At(int(y))
	return a.Job == b.Job && (!a.Job.IsNone() || a.User == b.User)
}
