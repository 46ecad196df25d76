package plugin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
)

// Requests to Elasticsearch use the data source's own HTTP settings, with secrets from secureJsonData.
func TestElasticsearchUsesTheDataSourcesHTTPSettings(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	var mu sync.Mutex
	var seen []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r)
		mu.Unlock()
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error": "secret in an answer"}`))
	}))
	defer server.Close()
	settings := settingsOf(t, map[string]any{"snapshotDir": dir, "jobs": "elasticsearch", "jobsIndex": "htcondor",
		"httpHeaderName1": "X-Pool"})
	settings.URL, settings.BasicAuthEnabled, settings.BasicAuthUser = server.URL+"/prefix", true, "reader"
	settings.DecryptedSecureJSONData = map[string]string{"basicAuthPassword": "s3cret", "httpHeaderValue1": "chtc"}
	d := Open(settings, o.End.UTC)
	defer d.Dispose()

	result, found := health(t, d)
	require.Equal(t, backend.HealthStatusError, result.Status)
	require.Contains(t, found["jobs"].Text, server.URL)
	require.NotContains(t, result.Message, "s3cret")
	require.NotContains(t, string(result.JSONDetails), "s3cret")
	mu.Lock()
	requests := seen
	mu.Unlock()
	require.NotEmpty(t, requests)
	for _, r := range requests {
		user, password, ok := r.BasicAuth()
		require.True(t, ok)
		require.Equal(t, "reader s3cret", user+" "+password)
		require.Equal(t, "chtc", r.Header.Get("X-Pool"))
		require.True(t, strings.HasPrefix(r.URL.Path, "/prefix/"), r.URL.Path)
	}

	// kinds that need no job ads are untouched; the others answer from snapshots and say so
	response, err := d.QueryData(context.Background(), &backend.QueryDataRequest{Queries: []backend.DataQuery{
		queryOf(t, o, "A", `{"queryType": "allocation"}`), queryOf(t, o, "B", `{"queryType": "evictions"}`),
		queryOf(t, o, "C", `{"queryType": "backfillAvailability"}`)}})
	require.NoError(t, err)
	for refID, warned := range map[string]bool{"A": false, "B": true, "C": true} {
		answer := response.Responses[refID]
		require.NoError(t, answer.Error)
		require.NotEmpty(t, answer.Frames)
		warnings := ""
		for _, notice := range answer.Frames[0].Meta.Notices {
			warnings += notice.Text
		}
		require.Equal(t, warned, strings.Contains(warnings, server.URL), warnings)
		require.NotContains(t, warnings, "s3cret")
	}
}

func TestElasticsearchSettingsThatCannotBe(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	for name, change := range map[string]func(*backend.DataSourceInstanceSettings){
		"URL":   func(s *backend.DataSourceInstanceSettings) { s.URL = "" },
		"index": func(s *backend.DataSourceInstanceSettings) { s.URL = "http://127.0.0.1:9" },
	} {
		settings := settingsOf(t, map[string]any{"snapshotDir": dir, "jobs": "elasticsearch"})
		change(&settings)
		d := Open(settings, o.End.UTC)
		result, found := health(t, d)
		d.Dispose()
		require.Equal(t, backend.HealthStatusError, result.Status)
		require.Contains(t, found["jobs"].Text, name)
		require.NotEqual(t, check.Error, found["snapshots"].Severity)
	}
}
