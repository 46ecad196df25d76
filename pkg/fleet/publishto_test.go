package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// A data source with publishTo publishes by itself, until it is disposed of; the health check says how far it is, and
// why it fails.
func TestPublishTo(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-to-%d", time.Now().UnixNano()) // the server may be one that others use
	o := made()[0]
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.Write(t.Context(), dir))
	open := func(url string) *plugin.Datasource {
		made, err := plugin.New(t.Context(), settings(t, url, map[string]any{"snapshotDir": dir, "timezone": o.Timezone,
			"factsIndex": alias, "publishTo": map[string]any{"pool": "mine"}}))
		require.NoError(t, err)
		source := made.(*plugin.Datasource)
		t.Cleanup(source.Dispose)
		return source
	}
	says := func(d *plugin.Datasource, text string) {
		require.Eventually(t, func() bool {
			health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
				PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
			return err == nil && strings.Contains(health.Message, text)
		}, time.Minute, 20*time.Millisecond, text)
	}
	says(open(url), "Facts of pool mine under "+alias+": published through 2025-11-03 07:00 UTC")
	says(open("http://127.0.0.1:1"), "publishing failed at")

	fleet := plugin.Open(settings(t, url, map[string]any{"mode": "fleet", "factsIndex": alias}), time.Now)
	t.Cleanup(fleet.Dispose)
	answer := ask(t, fleet, parse(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["pool"]}`),
		pool.Window{From: o.Start.UnixMicro(), To: o.End.UnixMicro()})
	require.NoError(t, answer.Error)
	require.Equal(t, "mine", labelled(answer.Frames)[0]["pool"])
}

func TestPublishToSettings(t *testing.T) {
	for text, want := range map[string]string{
		`{"snapshotDir": "/x", "publishTo": {"index": "gpu-facts"}}`:               "has an index but no pool",
		`{"snapshotDir": "/x", "publishTo": {"pool": "a"}}`:                        "publishTo: factsIndex is not set",
		`{"snapshotDir": "/x", "publishTo": {"pool": "a", "index": "Gpu"}}`:        "cannot be the name of an alias",
		`{"mode": "fleet", "factsIndex": "gpu-facts", "publishTo": {"pool": "a"}}`: "publishTo is set",
	} {
		_, err := plugin.ParseSettings([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	s, err := plugin.ParseSettings([]byte(`{"snapshotDir": "/x", "factsIndex": "f", "publishTo": {"pool": " a "}}`))
	require.NoError(t, err)
	require.Equal(t, plugin.PublishTo{Pool: "a", Index: "f"}, s.PublishTo)
}
