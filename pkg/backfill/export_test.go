package backfill

import (
	"github.com/chtc/gpureports/pkg/runs"
)

// Bounded is a period as snapshots show it, with the runs that bound it (−1 = none).
type Bounded struct {
	Machine          int
	First, Last      int32
	StartRun, EndRun int32
}

// Bounds are all periods of an observation as snapshots show them.
func Bounds(o *runs.Observed) (all []Bounded) {
	for _, m := range []measure{vacancy, tenure} {
		for machine := range o.Machines {
			for g := range o.Machines[machine].GPUs {
				for _, p := range m.periodsOf(o, &o.Machines[machine].GPUs[g], g, nil) {
					all = append(all, Bounded{machine, p.first, p.last, p.startRun, p.endRun})
				}
			}
		}
	}
	return all
}

// MemoryAdvice is what the advice says of runs with these peaks of memory.
func MemoryAdvice(peaks []float64) string { return (&job{peaks: peaks}).memoryAdvice() }
