package dashboards

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// What the dashboard of many pools and its alert rule ask is answered from facts that two pools have published.
func TestFleetIsAnswered(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-dashboard-%d", time.Now().UnixNano()) // the server may be one that others use
	dir, end := samplePool(t)
	open := func(now time.Time, jsonData map[string]any) *plugin.Datasource {
		text, err := json.Marshal(jsonData)
		require.NoError(t, err)
		d := plugin.Open(backend.DataSourceInstanceSettings{UID: FleetSourceUID, Type: pluginID, URL: url, JSONData: text},
			func() time.Time { return now })
		t.Cleanup(d.Dispose)
		return d
	}
	for _, name := range []string{"pool a", "pool b"} {
		source := open(end, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "factsIndex": alias})
		require.NoError(t, plugin.Publish(t.Context(), source,
			publish.Options{Pool: name, Since: end.AddDate(0, 0, -7)}, func(publish.Part) {}))
	}
	source := open(end, map[string]any{"mode": "fleet", "factsIndex": alias})
	from := end.AddDate(0, 0, -7)
	seen := names{}
	for _, d := range Fleet() {
		for _, v := range d.Variables {
			require.NotEmpty(t, offered(t, source, v, from, end), v.Name)
		}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				response := answer(t, source, withValues(t, p.Query, nil), from, end, false)
				require.NoError(t, response.Error, p.Title)
				require.NotEmpty(t, response.Frames[0].Fields, p.Title)
				require.NoError(t, fits(p, p.Query, response.Frames, false), p.Title)
				seen.add(response.Frames)
			}
		}
	}
	seen.requireOverrides(t, Fleet())
	for later, want := range map[time.Duration]bool{time.Hour: false, 6 * time.Hour: true} {
		for _, r := range FleetRules() {
			now := end.Add(later)
			values := results(t, open(now, map[string]any{"mode": "fleet", "factsIndex": alias}), r, now)
			fires := firing(t, r.Condition, values)
			require.Len(t, fires, 2, "each pool")
			for pool, fired := range fires {
				require.Equal(t, want, fired, "%s, %s later", pool, later)
			}
		}
	}
}
