package pool_test

import (
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
