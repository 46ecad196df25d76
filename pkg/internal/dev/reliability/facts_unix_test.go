//go:build unix

package reliability

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/clusterprivilege"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/indexprivilege"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

const securedAlias = "gpu-facts-secured"

// apiKey makes an API key with rights on the alias of the facts and their indices.
func apiKey(t *testing.T, es *elasticsearch.TypedClient, name string, cluster []clusterprivilege.ClusterPrivilege,
	rights ...indexprivilege.IndexPrivilege) string {
	t.Helper()
	answer, err := es.Security.CreateApiKey().Name(name).RoleDescriptors(map[string]types.RoleDescriptor{"facts": {
		Cluster: cluster, Indices: []types.IndicesPrivileges{{Names: []string{securedAlias, securedAlias + "-*"},
			Privileges: rights}}}}).Do(t.Context())
	require.NoError(t, err)
	return answer.Encoded
}

// With security on, publishing and asking need the rights that the documentation names, and no more. Keys that are
// wrong, or lack a right, are errors that say so; keys are in no answer, no health check and no line of the log.
func TestFactsWithSecurity(t *testing.T) {
	url := jobstest.SecuredElasticsearch(t)
	es, err := elasticsearch.NewTypedClient(elasticsearch.Config{Addresses: []string{url},
		Transport: http.DefaultTransport, Username: "admin", Password: jobstest.Password})
	require.NoError(t, err)
	publishing := apiKey(t, es, "publisher", []clusterprivilege.ClusterPrivilege{clusterprivilege.Manageindextemplates},
		indexprivilege.Read, indexprivilege.Createindex, indexprivilege.Index, indexprivilege.Delete,
		indexprivilege.Maintenance, indexprivilege.Manage)
	reading := apiKey(t, es, "reader", nil, indexprivilege.Read)
	nothing := apiKey(t, es, "nobody", nil, indexprivilege.None)
	const secret = "n0t-a-key-that-is-known"
	wrong := base64.StdEncoding.EncodeToString([]byte("id:" + secret))

	path, err := binary()
	require.NoError(t, err)
	var log bytes.Buffer
	process, err := host.Start(path, &log)
	require.NoError(t, err)
	defer process.Close()
	number, all := 0, ""
	source := func(key string, jsonData map[string]any) *host.Source {
		jsonData["factsIndex"], jsonData["httpHeaderName1"] = securedAlias, "Authorization"
		text, err := json.Marshal(jsonData)
		require.NoError(t, err)
		number++
		return process.Source(backend.DataSourceInstanceSettings{ID: int64(number), UID: "facts" + key[:8], Type: plugin.ID,
			URL: url, JSONData: text, Updated: time.Unix(int64(number), 0),
			DecryptedSecureJSONData: map[string]string{"httpHeaderValue1": "ApiKey " + key}})
	}
	health := func(s *host.Source, want string) {
		t.Helper()
		said := ""
		for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(said, want); {
			require.True(t, time.Now().Before(deadline), said)
			answer, err := s.As("Admin").CheckHealth(t.Context())
			require.NoError(t, err)
			said = answer.Message
			all += said + string(answer.JSONDetails) + "\n"
		}
	}
	o := small()
	dir := write(t, o)
	publisher := func(key string) *host.Source {
		return source(key, map[string]any{"snapshotDir": dir, "timezone": "UTC", "publishTo": map[string]any{"pool": "mine"}})
	}
	health(publisher(publishing), "published through 2025-11-02 11:00 UTC")
	health(publisher(reading), "403 Forbidden")
	health(publisher(wrong), "401 Unauthorized: check user and password, or the API key")

	for key, want := range map[string]string{reading: "", wrong: "401 Unauthorized", nothing: "403 Forbidden"} {
		answer := ask(t, source(key, map[string]any{"mode": "fleet"}), o.Start, o.End, ofMany[0])[0]
		all += texts(answer) + "\n"
		if want == "" {
			require.NoError(t, answer.Error)
			require.Contains(t, figures(t, answer), "mine")
			continue
		}
		require.ErrorContains(t, answer.Error, want)
		require.Equal(t, backend.ErrorSourceDownstream, answer.ErrorSource)
	}
	process.Close()
	require.Contains(t, log.String(), "publishing facts", "the log says what failed")
	for _, key := range []string{publishing, reading, nothing, wrong, secret} {
		require.NotContains(t, all, key)
		require.NotContains(t, log.String(), key)
	}
}

// ofMany are questions to many pools: sums of one kind of document, of several, and a series.
var ofMany = []string{
	`{"queryType": "allocation", "view": "summary", "groupBy": ["pool", "device"]}`,
	`{"queryType": "allocation", "view": "timeseries", "groupBy": ["pool"], "bucket": "1h"}`,
	`{"queryType": "userHours", "groupBy": ["pool", "device"]}`,
	`{"queryType": "evictions", "groupBy": ["pool", "device"], "metrics": ["runs", "evictions", "lostGpuHours"]}`,
}
