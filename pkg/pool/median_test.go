package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Equal(t, 7.0, Median([]float64{7}))
	require.Equal(t, 2.5, Median([]float64{9, 1, 3, 2}))
	require.Equal(t, 3.0, Median([]float64{9, 1, 3}))
	require.Equal(t, Micros(2), Median([]Micros{3, 2}), "half a microsecond is dropped")
	require.Equal(t, 15*Minute, MedianDistance([]Micros{0, 15 * Minute, 30 * Minute, 2 * Day}))
}
