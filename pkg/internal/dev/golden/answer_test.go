package golden

import (
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
)

func TestSame(t *testing.T) {
	require.True(t, Same(nil, nil))
	require.True(t, Same("", ""))
	require.False(t, Same(nil, ""), "null is no empty text")
	require.False(t, Same("", nil))
	require.False(t, Same(nil, 0.0))
	require.False(t, Same(0.0, nil))
	require.True(t, Same(1.0, 1+1e-12))
	require.False(t, Same(1.0, 1.001))
	at := time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)
	require.True(t, Same("2025-09-01T00:00:00Z", at))
	require.False(t, Same("2025-09-01T00:00:01Z", at))
}

// A series with several labels has one name, in any order of a map.
func TestLabelOf(t *testing.T) {
	for range 100 {
		require.Equal(t, "Open Capacity|H200", (&Expect{}).labelOf(data.Labels{"device": "H200", "category": "Open Capacity",
			"metric": "free", "slots": "Real"}))
	}
}
