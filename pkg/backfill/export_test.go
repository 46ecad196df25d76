package backfill

import (
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// Bounded is a period as snapshots show it, with the runs that bound it (−1 = none).
type Bounded struct {
	Machine          int
	First, Last      int32
	StartRun, EndRun int32
}

// Bounds are all periods of an observation as snapshots show them.
func Bounds(o *runs.Observed, w pool.Window) (all []Bounded) {
	for _, m := range []measure{vacancy, tenure} {
		a := &answer{Opening: &linked.Opening{Observed: o, Plan: &query.Plan{Window: w}}}
		for machine := range o.Machines {
			f := finder{answer: a, measure: m, machine: machine}
			for g := range o.Machines[machine].GPUs {
				f.read(g)
			}
			for _, p := range f.found {
				all = append(all, Bounded{machine, p.first, p.last, p.startRun, p.endRun})
			}
		}
	}
	return all
}
