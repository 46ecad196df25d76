package bench

import (
	"bytes"
	"io"
	"math"
	"os"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger()
	backend.Logger = log.DefaultLogger
	os.Exit(m.Run())
}

// On a tiny pool every figure is taken, and the table holds them all.
func TestRun(t *testing.T) {
	figures, err := Run(t.Context(), Options{Machines: 6, GPUs: 20, Days: 32, Runs: 2, Dir: t.TempDir(),
		Progress: io.Discard})
	require.NoError(t, err)
	for _, f := range figures {
		require.Positive(t, f.Value, f.What)
		require.Positive(t, f.Bound, f.What)
		require.False(t, math.IsInf(f.Value, 0), f.What)
	}
	require.Len(t, figures, 29, "all but those of the built binary, of Elasticsearch and of 10,000 GPUs")
	var out bytes.Buffer
	require.NoError(t, Print(&out, figures))
	for _, f := range figures {
		require.Contains(t, out.String(), f.What)
	}
}
