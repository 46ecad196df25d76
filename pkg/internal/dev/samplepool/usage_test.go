package samplepool

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func traces(t *testing.T) map[string]*run {
	t.Helper()
	runs := map[string]*run{}
	for seed := range uint64(80) {
		r := &run{start: 1_000_000 + int64(seed), gpus: make([]*gpu, 1+seed%4), job: &job{work: 20 * hour}}
		r.trace = newTrace(seed, r)
		runs[fmt.Sprintf("%s %d", r.trace.course, seed)] = r
	}
	return runs
}

// A trace is the same in any order of reading, never computes on more GPUs than there are, and its idle stretches are
// those found by reading every second.
func TestTraces(t *testing.T) {
	seen := map[Course]int{}
	for name, r := range traces(t) {
		x := r.trace
		seen[x.course]++
		end := r.start + 20*hour
		whole := x.busy(end)
		rnd := rand.New(rand.NewPCG(1, 2))
		before := 0.0
		for at := r.start; at < end; at += rnd.Int64N(10 * minute) {
			now := x.busy(at)
			require.GreaterOrEqual(t, now, before, name)
			require.LessOrEqual(t, now, x.gpus*float64(at-r.start)+1e-6, name)
			before = now
		}
		require.Equal(t, whole, x.busy(end))
		var idle [][2]int64
		from := int64(-1)
		for at := r.start; at <= end; at += second {
			rest := at < end && x.busy(at+second)-x.busy(at) < 0.01*x.gpus*float64(second)
			switch {
			case rest && from < 0:
				from = at
			case !rest && from >= 0:
				if at-from >= shortestIdle {
					idle = append(idle, [2]int64{from, at})
				}
				from = -1
			}
		}
		got := x.idle(end)
		require.Len(t, got, len(idle), name)
		for i := range idle {
			require.InDelta(t, idle[i][0], got[i][0].UnixMilli(), 1500, name)
			require.InDelta(t, idle[i][1], got[i][1].UnixMilli(), 1500, name)
		}
		switch x.course {
		case Sleeper:
			require.Less(t, whole, 0.004*x.gpus*float64(end-r.start))
		case OneGPU:
			require.Greater(t, x.gpus, 1.0)
			require.LessOrEqual(t, whole, float64(end-r.start))
		case Dead:
			require.Equal(t, whole, x.busy(max(x.dies, r.start)), "nothing after its death")
		}
	}
	for _, c := range []Course{Steady, Dead, Sleeper, OneGPU, Slow} {
		require.NotZero(t, seen[c], c)
	}
}
