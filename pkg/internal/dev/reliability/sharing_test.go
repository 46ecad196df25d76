//go:build unix

package reliability

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// Processes share a bucket and a cache directory. One that cannot fetch the lists at this moment, or is killed, takes
// nothing away from another; one with a wrong secret gets nothing of what the others keep, not even while the bucket
// cannot be reached.
func TestProcessesShareACacheDirectory(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Format = "parquet" })
	dir := write(t, o)
	p, err := samplepool.New(o)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"),
		[]byte("excluded_hosts: {"+p.Machines()[0].Name+": broken}"), 0o600))
	server := buckettest.Start(t)
	options := server.Bucket(t)
	putMonths(t, buckettest.Open(t, options), dir)
	proxy := buckettest.NewProxy(t, server, false)
	options.Endpoint = proxy.Endpoint
	cache := t.TempDir()
	source := func(o bucket.Options) backend.DataSourceInstanceSettings {
		s := bucketSource(t, 1, o, map[string]string{"bucketAccessKey": o.AccessKey, "bucketSecretKey": o.SecretKey})
		var jsonData map[string]any
		require.NoError(t, json.Unmarshal(s.JSONData, &jsonData))
		jsonData["cacheDir"] = cache
		s.JSONData, err = json.Marshal(jsonData)
		require.NoError(t, err)
		return s
	}
	const query = `{"queryType": "allocation", "view": "summary", "groupBy": ["machine"]}`
	want := figures(t, ask(t, start(t).Source(saved(t, 9, map[string]any{"snapshotDir": dir})), o.Start, o.End, query)[0])
	one := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*").Source(source(options))
	require.Equal(t, want, figures(t, ask(t, one, o.Start, o.End, query)[0]))

	proxy.Set(func(w http.ResponseWriter, r *http.Request, s http.Handler) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "masked_hosts.yaml") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.ServeHTTP(w, r)
	})
	killed := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*")
	require.ErrorContains(t, ask(t, killed.Source(source(options)), o.Start, o.End, query)[0].Error, "masked_hosts.yaml")
	require.Equal(t, want, figures(t, ask(t, one, o.Start, o.End, query)[0]))
	killed.Close()
	proxy.Set(buckettest.Gone)
	other := options
	other.SecretKey = "wrong"
	stranger := start(t, "GF_PLUGIN_ALLOWED_BUCKETS=*").Source(source(other))
	require.Error(t, ask(t, stranger, o.Start, o.End, query)[0].Error)
	require.Equal(t, want, figures(t, ask(t, one, o.Start, o.End, query)[0]))
}
