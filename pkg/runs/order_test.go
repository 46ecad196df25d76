package runs_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Each item comes after those that are earlier, and after those of the same time with a lower number, however far apart
// the times are.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, span := range []int64{1, 3, 1000, 400 * pool.Day, 1 << 60, math.MaxInt64} {
		for n := range 40 {
			times := make([]pool.Micros, n)
			for i := range times {
				times[i] = random.Int64N(span) - span/2
			}
			order := runs.Order(n, func(i int) pool.Micros { return times[i] })
			at := make([]int, n) // where each item stands
			require.Len(t, order, n)
			for place, item := range order {
				at[item] = place
			}
			for i := range times {
				for k := range times {
					if times[i] < times[k] || times[i] == times[k] && i < k {
						require.Less(t, at[i], at[k], "%v: %v", times, order)
					}
				}
			}
		}
	}
}
