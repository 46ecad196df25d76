package backfill

import (
	"cmp"
	"context"
	"slices"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// changes are the numbers of changes of state, from and to; used → used is a change of job.
type changes [runs.States][runs.States]int64

// countTransitions counts the changes from one snapshot to the next without a gap, which is in the window, by group.
func (a *answer) countTransitions(ctx context.Context) (keys pool.Numbered[aggregate.Key], found []changes, err error) {
	o := a.Observed
	inPool := func(s runs.State) bool { return s != runs.Unknown && s != runs.Outside }
	for m := range parallel.Until(ctx, len(o.Machines)) {
		machine := &o.Machines[m]
		for i := range machine.GPUs {
			gpu := &machine.GPUs[i]
			for n := max(1, gpu.At(int32(a.first))); n < len(gpu.Segments); n++ {
				before, after := &gpu.Segments[n-1], &gpu.Segments[n]
				if int(after.First) >= a.end {
					break
				}
				if int(after.First) < a.first || o.GapAfter(before.Last) || !inPool(before.State) || !inPool(after.State) {
					continue
				}
				sameJob := before.Job == after.Job && (!before.Job.IsNone() || before.User == after.User)
				if before.State == after.State && (after.State != runs.Used || sameJob) {
					continue
				}
				key := keyOf(o.PlaceAt(gpu, after.First), after.Project)
				if a.chosen.Keeps(&key) {
					n := int(keys.Number(key.Within(a.by)))
					if n == len(found) {
						found = append(found, changes{})
					}
					found[n][before.State][after.State]++
				}
			}
		}
	}
	return keys, found, ctx.Err()
}

// transitions lists changes of state, by group, then from and to in the order of states.
func (a *answer) transitions(ctx context.Context) (data.Frames, error) {
	type row struct {
		group    []string
		from, to runs.State
		count    int64
	}
	keys, counted, err := a.countTransitions(ctx)
	if err != nil {
		return nil, err
	}
	var rows frames.Rows[row]
	for n, key := range keys.All {
		group := key.Texts(a.Plan, a.Plan.GroupBy, a.Names)
		for from, of := range counted[n] {
			for to, count := range of {
				if count > 0 {
					rows = append(rows, &row{group, runs.State(from), runs.State(to), count})
				}
			}
		}
	}
	slices.SortFunc(rows, func(x, y *row) int {
		return cmp.Or(query.CompareGroups(a.Plan.GroupBy, x.group, y.group), cmp.Compare(order(x.from), order(y.from)),
			cmp.Compare(order(x.to), order(y.to)))
	})
	groups := frames.GroupColumns(a.Plan, frames.Each(rows, func(r *row) []string { return r.group }))
	return frames.List(a.Plan, a.About, append(groups,
		rows.Text("from", func(r *row) string { return r.from.String() }),
		rows.Text("to", func(r *row) string { return r.to.String() }),
		rows.Whole("count", func(r *row) int64 { return r.count }))...), nil
}

// order is the order of states in the design: available, used, taken, blocked, absent.
func order(s runs.State) int {
	return slices.Index([]runs.State{runs.Available, runs.Used, runs.Taken, runs.Blocked, runs.Absent}, s)
}
