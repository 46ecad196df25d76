package query_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// FuzzQuery: any JSON as a query is refused with a fault of the query, or means a plan that can be written as JSON.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `7`, `{"queryType": "allocation"}`,
		`{"refId": "A", "queryType": "allocation", "view": "timeseries", "groupBy": ["category"], "metrics": ["allocatedPercent"], "filter": {"categories": ["Shared"], "devices": ["/H200/"], "idle": false}, "bucket": "auto", "timezone": "America/Chicago", "completeBucketsOnly": true, "totals": false, "limit": 3, "version": 1}`,
		`{"queryType": "userHours", "groupBy": [], "filter": {"users": ["", "x@y", "/^a$/"]}}`,
		`{"queryType": "backfillAvailability", "view": "survival", "duration": "vacancy"}`,
		`{"queryType": "evictions", "view": "summary", "metrics": ["runs"], "filter": {"machines": ["//", "/", "$m", "[[m]]", "/[[:alpha:]]/"]}}`,
		`{"queryType": "allocation", "timezone": "../../etc/passwd"}`, `{"queryType": "allocation", "limit": 1e999}`,
		`{"queryType": "allocation", "filter": {"devices": ["/(a{1000}){1000}/"]}}`,
		`{"queryType": "allocation", "version": 99}`, `{"queryType":"\ud800"}`,
	} {
		f.Add([]byte(seed), int64(0), int64(90_000_000_000), false)
		f.Add([]byte(seed), int64(-1), int64(1)<<62, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, from, to int64, alert bool) {
		model, err := query.Parse(raw)
		if err != nil {
			require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%s", raw)
			return
		}
		plan, err := kinds.Catalog.Plan(query.Request{Model: model, Window: pool.Window{From: from, To: to},
			IntervalMs: 1000, FromAlert: alert}, query.Env{Zone: localtime.UTC, SliceMinutes: 15})
		if err != nil {
			require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%s", raw)
			return
		}
		require.True(t, json.Valid([]byte(plan.Executed())))
		plan.Select.Match(query.ByDevice, "NVIDIA H200")
		plan.Select.Match(query.ByProject, "Chem,Phys")
		again, err := json.Marshal(model)
		require.NoError(t, err)
		same, err := query.Parse(again)
		require.NoError(t, err, "%s", again)
		once, err := json.Marshal(same)
		require.NoError(t, err)
		require.Equal(t, string(again), string(once))
	})
}
