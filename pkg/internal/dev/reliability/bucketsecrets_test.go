//go:build unix

package reliability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
)

// The keys of a bucket appear nowhere, in any failure: not in answers, resources, the health check and metrics, and not
// in the plugin's log. Keys of the settings and those that the server lends are both tried.
func TestBucketSecretsStaySecret(t *testing.T) {
	const token, wrongKey, wrongSecret = "made-up-session-token", "another-access-key", "another-secret-key"
	o := small(func(o *samplepool.Options) { o.Format = "parquet" })
	server := buckettest.Start(t)
	options := server.Bucket(t)
	putMonths(t, buckettest.Open(t, options), write(t, o))
	type source struct {
		options bucket.Options
		keys    map[string]string // nil: those that the server lends
	}
	var sources []source
	var allowed []string
	behind := func(fault buckettest.Fault, change func(*bucket.Options)) {
		proxy := buckettest.NewProxy(t, server, false)
		proxy.Set(fault)
		o := options
		o.Endpoint = proxy.Endpoint
		change(&o)
		allowed = append(allowed, o.Endpoint+"/"+strings.TrimPrefix(o.URL, "s3://"))
		sources = append(sources, source{o, nil},
			source{o, map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey}})
	}
	same := func(*bucket.Options) {}
	behind(nil, same)
	behind(nil, func(o *bucket.Options) { o.AccessKey, o.SecretKey = wrongKey, wrongSecret })
	behind(nil, func(o *bucket.Options) { o.SecretKey = wrongSecret })
	behind(nil, func(o *bucket.Options) { o.SecretKey = "" })
	behind(nil, func(o *bucket.Options) { o.URL, o.Endpoint = "s3://pool", "http://127.0.0.1:1" })
	for _, status := range []int{http.StatusOK, http.StatusMovedPermanently, http.StatusForbidden,
		http.StatusServiceUnavailable} {
		behind(buckettest.Repeating(status), same)
	}
	for _, fault := range []buckettest.Fault{buckettest.Busy, buckettest.Gone, buckettest.Cut, buckettest.OtherETag} {
		behind(fault, same)
	}

	path, err := binary()
	require.NoError(t, err)
	var log bytes.Buffer
	process, err := host.Start(path, &log, "AWS_ACCESS_KEY_ID="+buckettest.AccessKey,
		"AWS_SECRET_ACCESS_KEY="+buckettest.SecretKey, "AWS_SESSION_TOKEN="+token,
		"GF_PLUGIN_ALLOWED_BUCKETS=*,"+strings.Join(allowed, ","))
	require.NoError(t, err)
	defer process.Close()

	all, failed := "", 0
	var mu sync.Mutex
	var wait sync.WaitGroup
	for n, s := range sources {
		wait.Go(func() {
			text, wrong := readable(t, process.Source(bucketSource(t, n, s.options, s.keys)))
			mu.Lock()
			defer mu.Unlock()
			if all += text; wrong {
				failed++
			}
		})
	}
	wait.Wait()
	metrics, err := process.CollectMetrics(t.Context())
	require.NoError(t, err)
	process.Close()
	require.Greater(t, failed, len(sources)/2, "the faults are met")
	require.Contains(t, log.String(), options.URL, "the log says what failed")
	for _, secret := range []string{buckettest.AccessKey, buckettest.SecretKey, token, wrongKey, wrongSecret} {
		require.NotContains(t, all, secret)
		require.NotContains(t, log.String(), secret)
		require.NotContains(t, string(metrics), secret)
	}
}

// putMonths puts the month files of a directory into a bucket, and the lists.
func putMonths(t *testing.T, b *bucket.Bucket, dir string) {
	t.Helper()
	names := []string{"chtc_owned", "masked_hosts.yaml"}
	months, err := filepath.Glob(filepath.Join(dir, "gpu_state_*.parquet"))
	require.NoError(t, err)
	require.NotEmpty(t, months)
	for _, file := range months {
		names = append(names, filepath.Base(file))
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		if len(data) > 0 {
			_, err = b.Put(t.Context(), name, data, bucket.Absent)
			require.NoError(t, err)
		}
	}
}

// bucketSource is the n-th data source, with snapshots and finished days in a bucket.
func bucketSource(t *testing.T, n int, o bucket.Options, keys map[string]string) backend.DataSourceInstanceSettings {
	t.Helper()
	jsonData, err := json.Marshal(map[string]any{"snapshotBucket": o.URL, "segmentBucket": o.URL + "/made",
		"bucketEndpoint": o.Endpoint, "bucketPathStyle": o.PathStyle})
	require.NoError(t, err)
	return backend.DataSourceInstanceSettings{ID: int64(n), UID: fmt.Sprint("bucket", n), Name: fmt.Sprint("bucket ", n),
		Type: plugin.ID, JSONData: jsonData, DecryptedSecureJSONData: keys, Updated: time.Unix(int64(n), 0)}
}

// readable is what can be read of a data source: answers, resources, the health check. failed reports whether a query
// was answered with an error.
func readable(t *testing.T, source *host.Source) (text string, failed bool) {
	t.Helper()
	o := small()
	answer := ask(t, source, o.Start, o.End, `{"queryType": "allocation", "view": "summary"}`)[0]
	response, err := source.Resource(t.Context(), "values/user", "")
	require.NoError(t, err)
	text = texts(answer) + "\n" + string(response.Body) + "\n"
	health, err := source.As("Admin").CheckHealth(t.Context())
	require.NoError(t, err)
	return text + health.Message + string(health.JSONDetails) + "\n", answer.Error != nil
}
