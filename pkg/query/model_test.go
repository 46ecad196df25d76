package query

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key that is nearly a known one is an error that names it; keys in another case, and Grafana's own, pass.
func TestKeysThatAreNearlyKnown(t *testing.T) {
	for key, want := range map[string]string{"filters": "filter", "metric": "metrics", "group_by": "groupBy",
		"time_zone": "timezone", "includeOldDevice": "includeOldDevices", "view_": "view", "vieuw": "view",
		"buckett": "bucket",
		"legends": "legend", "query-type": "queryType", "job_hours": "jobHours", "total": "totals"} {
		_, err := Parse(json.RawMessage(`{"queryType": "allocation", "` + key + `": null}`))
		require.ErrorContains(t, err, `"`+key+`"`)
		require.ErrorContains(t, err, `"`+want+`"`)
	}
	for _, key := range []string{"FILTER", "GroupBy", "datasource", "datasourceId", "hide", "key", "intervalMs",
		"maxDataPoints", "queryCachingTTL", "expr", "format", "rawSql", "scopes", "timeRange", "type", "utcOffsetSec"} {
		_, err := Parse(json.RawMessage(`{"queryType": "allocation", "` + key + `": null}`))
		require.NoError(t, err, key)
	}
}
