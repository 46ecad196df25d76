package backfill

import (
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// marks mark runs by their machine and number: those that bound periods which reach a window.
type marks struct {
	observed *runs.Observed
	window   pool.Window
	since    int32 // the first snapshot of the evidence before the window
	marked   map[[2]int]bool
}

func newMarks(o *runs.Observed, w pool.Window) *marks {
	return &marks{o, w, o.Since(w), map[[2]int]bool{}}
}

func (m *marks) has(machine, run int) bool { return m.marked[[2]int{machine, run}] }

// boundaries marks the runs that bound periods which reach the window.
func (m *marks) boundaries(seen []bounds) {
	for _, b := range seen {
		if b.from(m.since); !b.reaches(m.observed, m.window) {
			continue
		}
		for _, run := range [2]int32{b.startRun, b.endRun} {
			if run >= 0 {
				m.marked[[2]int{int(b.machine), int(run)}] = true
			}
		}
	}
}

// startedIn marks the backfill runs that begin in a tenure which reaches the window.
func (m *marks) startedIn(tenures []bounds) {
	of := map[[2]int32][]*bounds{}
	for i := range tenures {
		if b := &tenures[i]; b.reaches(m.observed, m.window) {
			at := [2]int32{b.machine, b.gpu}
			of[at] = append(of[at], b)
		}
	}
	for n := range m.observed.Machines {
		for r := range m.observed.Machines[n].Runs {
			run := &m.observed.Machines[n].Runs[r]
			if run.Side != pool.Backfill || run.Last < m.since {
				continue
			}
			all := of[[2]int32{int32(n), run.Leader}]
			i := sort.Search(len(all), func(i int) bool { return all[i].last >= run.First })
			if i < len(all) && all[i].first <= run.First {
				m.marked[[2]int{n, r}] = true
			}
		}
	}
}
