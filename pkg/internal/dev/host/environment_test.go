package host

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
)

// Grafana 12.4 and newer pass plugins none of their own environment, so the server's keys are missing: the health check
// says so, and which setting passes them.
func TestEmptiedEnvironment(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	row := make([]any, len(parquet.Schema))
	for i, f := range parquet.Schema {
		row[i] = map[string]any{"Name": "slot1@m1", "Machine": "m1", "State": "Unclaimed", "AssignedGPUs": "GPU-1",
			"timestamp": "2026-03-02 00:00:00.000000"}[f.Name]
	}
	month, err := parquet.Encode(parquet.Schema, [][]any{row})
	require.NoError(t, err)
	_, err = buckettest.Open(t, o).Put(t.Context(), "gpu_state_2026-03.parquet", month, "")
	require.NoError(t, err)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	allowed := "GF_PLUGIN_ALLOWED_BUCKETS=" + o.Endpoint + "/" + o.URL[len("s3://"):]
	settings, err := json.Marshal(map[string]any{"snapshotBucket": o.URL, "bucketEndpoint": o.Endpoint,
		"bucketPathStyle": o.PathStyle})
	require.NoError(t, err)
	binary, err := Build(t.Context(), directory)
	require.NoError(t, err)
	health := func(p *Process, err error) *backend.CheckHealthResult {
		require.NoError(t, err)
		t.Cleanup(p.Close)
		result, err := p.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: backend.PluginContext{
			PluginID: plugin.ID, User: &backend.User{Role: "Admin"},
			DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{UID: "bucket", Type: plugin.ID,
				JSONData: settings}}})
		require.NoError(t, err)
		return result
	}
	without := health(StartIn([]string{allowed}, binary, io.Discard))
	require.Equal(t, backend.HealthStatusError, without.Status, without.Message)
	require.Contains(t, without.Message, "forward_host_env_vars = "+plugin.ID)
	with := health(Start(binary, io.Discard, allowed))
	require.Equal(t, backend.HealthStatusOk, with.Status, with.Message)
	require.Contains(t, with.Message, "newest 2026-03-02 00:00")
	require.NotContains(t, with.Message, "forward_host_env_vars")
}
