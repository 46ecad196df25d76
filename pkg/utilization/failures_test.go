package utilization

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/timeline"
)

// poissonTail is the probability of n or more by adding up the terms below n.
func poissonTail(n int, mean float64) float64 {
	below, term := 0.0, math.Exp(-mean)
	for i := range n {
		below += term
		term *= mean / float64(i+1)
	}
	return 1 - below
}

func TestAtLeast(t *testing.T) {
	for _, mean := range []float64{0.01, 0.5, 3, 20} {
		for n := range 30 {
			require.InDelta(t, poissonTail(n, mean), atLeast(float64(n), mean), 1e-12)
		}
	}
}

// Rows against a definition that goes through all starts for each start.
func TestFailingRowsLikeNaive(t *testing.T) {
	suspects := 0
	for seed := range uint64(80) {
		random := rand.New(rand.NewPCG(seed, 4))
		names := []string{"", "u4", "u2", "u3", "u1"}
		var starts []begun
		for range random.IntN(150) {
			s := begun{machine: int32(random.IntN(1 + int(seed%4))), gpu: int32(random.IntN(2)),
				user: timeline.Symbol(random.IntN(len(names))), at: int64(random.IntN(1000))}
			if random.IntN(12) == 0 || s.machine == 0 && random.IntN(3) == 0 {
				s.failed = true
			}
			starts = append(starts, s)
		}
		for _, byGPU := range []bool{false, true} {
			for _, row := range failingRows(starts, byGPU, names) {
				var n, k, elsewhere, expected float64
				excess, worst := math.Inf(-1), [2]float64{}
				perUser := map[string][2]float64{} // failures, expected
				for _, s := range starts {
					if s.machine != row.machine || byGPU && s.gpu != row.gpu {
						continue
					}
					n++
					var m, kk, mm, kkk float64
					for _, o := range starts {
						if o.machine == s.machine {
							continue
						}
						mm++
						fails := 0.0
						if o.failed {
							fails = 1
						}
						kkk += fails
						if o.user == s.user {
							m++
							kk += fails
						}
					}
					elsewhere = mm
					p := (kkk + 0.5) / (mm + 1)
					q := (kk + 10*p) / (m + 10)
					expected += q
					of := perUser[names[s.user]]
					of[1] += q
					if s.failed {
						k++
						of[0]++
					}
					perUser[names[s.user]] = of
				}
				require.Equal(t, []float64{n, k}, []float64{row.starts, row.failures})
				if elsewhere == 0 {
					require.True(t, math.IsNaN(row.expected))
					require.False(t, row.suspect)
					continue
				}
				require.InDelta(t, expected, row.expected, 1e-9)
				for _, name := range []string{"", "u1", "u2", "u3", "u4"} {
					if of, there := perUser[name]; there && of[0]-of[1] > excess+1e-9 {
						excess, worst = of[0]-of[1], of
					}
				}
				suspect := k >= 3 && poissonTail(int(k), expected) < 0.001 &&
					poissonTail(int(k-worst[0]), expected-worst[1]) < 0.01
				require.Equal(t, suspect, row.suspect, fmt.Sprint(seed, row.machine))
				if suspect {
					suspects++
				}
			}
		}
	}
	require.Positive(t, suspects)
}
