package pool_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// Long texts are cut, and stay different.
func TestCut(t *testing.T) {
	require.Equal(t, strings.Repeat("a", pool.MostText), pool.Cut(strings.Repeat("a", pool.MostText)))
	long := strings.Repeat("ä", pool.MostText)
	one, other := pool.Cut(long+"1"), pool.Cut(long+"2")
	require.NotEqual(t, one, other)
	require.False(t, pool.IsCut(strings.Repeat("a", pool.MostText)))
	require.False(t, pool.IsCut("…0123456789abcdef"))
	for _, text := range []string{one, other} {
		require.LessOrEqual(t, len(text), pool.MostText)
		require.Equal(t, strings.ToValidUTF8(text, "?"), text)
		require.Contains(t, text, "ä…")
		require.True(t, pool.IsCut(text))
		require.Equal(t, text, pool.Cut(text))
	}
}

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
