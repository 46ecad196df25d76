package timeline

import (
	"github.com/chtc/gpureports/pkg/pool"
)

// SharedGPUs counts the GPUs that several jobs hold at once, on one side, in at least two snapshots of a window, one
// after the other: slots share them. (A leftover row beside the next job's is in one snapshot.)
func (v *View) SharedGPUs(w pool.Window) int {
	first, end := v.Snapshots(w)
	shared := map[GPU]bool{}
	for k, d := range v.Days {
		from, to := max(first-v.Base[k], 0), min(end-v.Base[k], len(d.Times))
		if len(d.extras) == 0 || from >= to {
			continue
		}
		for i := range d.GPUs() {
			for span := range d.SpansIn(i, from, to) {
				if span.End-span.First > 1 && len(d.claims(span.Status)) > 0 {
					shared[d.GPU(i)] = true
					break
				}
			}
		}
	}
	return len(shared)
}
