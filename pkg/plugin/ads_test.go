package plugin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
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

// Servers with a segmentBucket share days, but each asks Elasticsearch for itself: what it may see depends on its keys.
func TestServersAskForJobAdsThemselves(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	shared := buckettest.Start(t).Bucket(t)
	var searches atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/vnd.elasticsearch+json;compatible-with=8")
		answer := `{"id": "p", "succeeded": true, "num_freed": 1}`
		switch {
		case strings.HasSuffix(r.URL.Path, "/_field_caps"):
			answer = `{"indices": ["htcondor"], "fields": {"GlobalJobId": {"keyword": {"type": "keyword", "searchable": true}},
				"RecordTime": {"date": {"type": "date", "searchable": true}}}}`
		case strings.HasSuffix(r.URL.Path, "/_search"):
			searches.Add(1)
			answer = `{"pit_id": "p", "timed_out": false, "_shards": {"total": 1, "failed": 0}, "hits": {"hits": []}}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	var connections atomic.Int64
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			connections.Add(1)
		case http.StateClosed:
			connections.Add(-1)
		}
	}
	server.Start()
	defer server.Close()
	asked := func(password string) int64 {
		settings := settingsOf(t, map[string]any{"snapshotDir": dir, "jobs": "elasticsearch", "jobsIndex": "htcondor",
			"segmentBucket": shared.URL, "bucketEndpoint": shared.Endpoint, "bucketPathStyle": shared.PathStyle})
		settings.URL, settings.BasicAuthEnabled, settings.BasicAuthUser = server.URL, true, "reader"
		settings.DecryptedSecureJSONData = map[string]string{"basicAuthPassword": password,
			secretAccessKey: shared.AccessKey, secretSecretKey: shared.SecretKey}
		d := Open(settings, o.End.UTC)
		defer d.Dispose()
		before := searches.Load()
		response, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{
			queryOf(t, o, "A", `{"queryType": "evictions", "view": "summary"}`)}})
		require.NoError(t, err)
		require.NoError(t, response.Responses["A"].Error)
		return searches.Load() - before
	}
	require.Positive(t, asked("s3cret"))
	require.Positive(t, asked("s3cret"))
	require.Eventually(t, func() bool { return connections.Load() == 0 }, testPatience, testPause,
		"a data source that is gone leaves no connection open")
}
