package pool_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// Values keep the numbers in which they were met first, also if few of them alternate.
func TestNumbered(t *testing.T) {
	var n pool.Numbered[int]
	var met []int
	for range 10_000 {
		v := rand.IntN(4)
		if !slices.Contains(met, v) {
			met = append(met, v)
		}
		require.EqualValues(t, slices.Index(met, v), n.Number(v))
	}
	require.Equal(t, met, n.All)
	number, ok := n.Find(met[2])
	require.True(t, ok)
	require.EqualValues(t, 2, number)
	_, ok = n.Find(4)
	require.False(t, ok)
}
