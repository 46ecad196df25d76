package plugin

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// small is a small pool of two days; change may alter it.
func small(change ...func(*samplepool.Options)) samplepool.Options {
	o := samplepool.Default()
	o.Machines, o.GPUs = 6, 24
	o.Start, o.End = time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 1, 12, 0, 0, 0, time.UTC)
	o.Timezone, o.Outages = "UTC", 0
	for _, c := range change {
		c(&o)
	}
	return o
}

// writePool writes a pool into a directory of its own.
func writePool(t *testing.T, o samplepool.Options) (dir string, p *samplepool.Pool) {
	t.Helper()
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, p.Write(context.Background(), dir))
	return dir, p
}

// settingsOf are a data source's settings with this jsonData.
func settingsOf(t *testing.T, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	text, err := json.Marshal(jsonData)
	require.NoError(t, err)
	return backend.DataSourceInstanceSettings{ID: 1, UID: "gpureports", Name: "GPU Reports", Type: ID, JSONData: text}
}

// open opens a data source whose clock is fixed.
func open(t *testing.T, now time.Time, jsonData map[string]any) *Datasource {
	t.Helper()
	d := Open(settingsOf(t, jsonData), func() time.Time { return now })
	t.Cleanup(d.Dispose)
	return d
}

// How long a test waits for what must happen, and how often it looks.
const (
	testPatience = 30 * time.Second
	testPause    = time.Millisecond
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger() // the tests' own errors are what matters
	backend.Logger = log.DefaultLogger
	goleak.VerifyTestMain(m)
}
