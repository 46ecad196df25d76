package plugin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
)

// Health shows the figures of job ads. If a job source fails, only its own figures are missing; a query for only one of
// them, such as an alert rule's, gets the error.
func TestHealthOfJobAds(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	ask := func(jobsPath, metrics string) backend.DataResponse {
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": jobsPath})
		response, err := d.QueryData(context.Background(), &backend.QueryDataRequest{Queries: []backend.DataQuery{{
			RefID: "A", JSON: json.RawMessage(`{"queryType": "allocation", "view": "health", "metrics": [` + metrics + `]}`),
			TimeRange: backend.TimeRange{From: o.Start, To: o.End},
		}}})
		require.NoError(t, err)
		return response.Responses["A"]
	}
	names := func(r backend.DataResponse) (names []string) {
		require.NoError(t, r.Error)
		for _, f := range r.Frames[0].Fields {
			names = append(names, f.Name)
		}
		return names
	}
	all := ask("jobs.db", "")
	require.Equal(t, []string{"snapshotAgeSeconds", "coveragePercent", "gpusSeen", "gpusLost", "jobsLagSeconds",
		"linkRate", "clockErrorSeconds"}, names(all))
	lag, err := all.Frames[0].Fields[4].FloatAt(0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, lag, 0.0)
	rate, err := all.Frames[0].Fields[5].FloatAt(0)
	require.NoError(t, err)
	require.Greater(t, rate, 90.0)

	broken := "chtc_owned" // a file, but none of job ads
	without := ask(broken, "")
	require.Equal(t, []string{"snapshotAgeSeconds", "coveragePercent", "gpusSeen", "gpusLost"}, names(without))
	require.True(t, slices.ContainsFunc(without.Frames[0].Meta.Notices, func(n data.Notice) bool {
		return n.Severity == data.NoticeSeverityWarning &&
			strings.Contains(n.Text, "jobsLagSeconds, linkRate, clockErrorSeconds are left out")
	}))
	for _, metric := range []string{`"jobsLagSeconds"`, `"linkRate"`, `"clockErrorSeconds"`} {
		failed := ask(broken, metric)
		require.Error(t, failed.Error, metric)
		require.Equal(t, backend.ErrorSourceDownstream, failed.ErrorSource, metric)
	}
	require.Equal(t, []string{"gpusSeen"}, names(ask(broken, `"gpusSeen"`)))
}
