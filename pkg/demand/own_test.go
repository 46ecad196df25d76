package demand

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The line before each wait, and what own GPUs are to it, by looking at all waits and all GPUs for each wait.
func TestOwnGPUsLikeNaive(t *testing.T) {
	met := map[own]int{}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		names := timeline.NewNames()
		lists := pool.Lists{ProjectNames: map[string][]string{"Lab": {"P", "Q"}, "Empty": {}}}
		projects := []string{"", "P", "Q", "P,Q", "R", "Lab"}
		day := &ownDay{owning: &owning{lists: lists}, members: map[timeline.Symbol][]string{},
			stands: map[timeline.Symbol]map[string]bool{}, matches: map[[2]timeline.Symbol]bool{}}
		for m := range random.IntN(4) {
			priority := []string{"P", "Lab", "R", "Q,R", "Empty"}[random.IntN(5)]
			for range random.IntN(4) {
				memory := []float64{math.NaN(), 40000, 80000}[random.IntN(3)]
				day.gpus = append(day.gpus, ownGPU{names.Symbol(fmt.Sprint("m", m)), names.Symbol(priority), memory,
					own(random.IntN(3))})
			}
		}
		var waits []Wait
		for i := range random.IntN(12) {
			waits = append(waits, Wait{Job: names.Job(fmt.Sprintf("ap#%d.0#1", 1+random.IntN(20))), Attempts: int32(i),
				Project: names.Symbol(projects[random.IntN(len(projects))]), Begin: pool.Micros(random.IntN(4)),
				Request: queues.Request{GPUs: []float64{1, 1, 1.5, 3}[random.IntN(4)],
					GPUMemory: []float64{0, 1, 40000, 60000}[random.IntN(4)]}})
		}
		day.names = names.Texts()
		slices.SortFunc(waits, func(a, b Wait) int {
			if c := cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Begin, b.Begin)); c != 0 {
				return c
			}
			return strings.Compare(names.JobText(a.Job), names.JobText(b.Job))
		})
		const snapshot = 0 // waits that begin then are not after it
		l := line{slice: -1}
		for i := range waits {
			w := &waits[i]
			ahead := l.before(w, 7, w.Begin > snapshot)
			before := 0.0
			for k := range waits {
				o := &waits[k]
				earlier := o.Begin < w.Begin || o.Begin == w.Begin && names.JobText(o.Job) < names.JobText(w.Job)
				if k != i && o.Project == w.Project && o.Begin > snapshot && earlier {
					before += math.Ceil(o.Request.GPUs)
				}
			}
			require.Equal(t, before, ahead, "seed %d", seed)

			stands := map[string][]string{"Lab": {"P", "Q"}, "Empty": nil, "P": {"P"}, "R": {"R"}, "Q": {"Q"}}
			all, free, open := map[timeline.Symbol]int{}, map[timeline.Symbol]int{}, map[timeline.Symbol]int{}
			var sumFree, sumOpen float64
			for _, g := range day.gpus {
				gives := false
				for _, name := range strings.Split(day.names[g.priority], ",") {
					for _, member := range strings.Split(day.names[w.Project], ",") {
						gives = gives || slices.Contains(stands[name], member)
					}
				}
				if !gives || w.Request.GPUMemory > 0 && !(g.memory >= w.Request.GPUMemory) {
					continue
				}
				all[g.machine]++
				if g.state == ownFree {
					free[g.machine]++
					sumFree++
				}
				if g.state != ownBusy {
					open[g.machine]++
					sumOpen++
				}
			}
			n := math.Ceil(w.Request.GPUs)
			have := func(on map[timeline.Symbol]int) bool {
				for _, gpus := range on {
					if float64(gpus) >= n {
						return true
					}
				}
				return false
			}
			want := ownBusy
			switch {
			case !have(all):
				want = ownNone
			case have(free) && sumFree >= before+n:
				want = ownFree
			case have(open) && sumOpen >= before+n:
				want = ownBackfill
			}
			got := day.sum(ownKey{w.Project, w.Request.GPUMemory}).own(n, ahead)
			require.Equal(t, want, got, "seed %d", seed)
			met[got]++
		}
	}
	for _, o := range []own{ownFree, ownBackfill, ownBusy, ownNone} {
		require.Greater(t, met[o], 10)
	}
}
