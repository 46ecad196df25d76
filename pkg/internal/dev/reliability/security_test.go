//go:build unix

package reliability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// texts are all that a viewer can read of an answer.
func texts(answer backend.DataResponse) string {
	text := notices(answer)
	if answer.Error != nil {
		text += "\n" + answer.Error.Error()
	}
	for _, frame := range answer.Frames {
		if frame.Meta != nil {
			text += "\n" + frame.Meta.ExecutedQueryString
		}
	}
	return text
}

// resource gets a resource as Grafana does.
func resource(t *testing.T, d backend.CallResourceHandler, path, query string) (status int, body string) {
	t.Helper()
	err := d.CallResource(t.Context(), &backend.CallResourceRequest{Method: http.MethodGet, Path: path,
		URL: path + "?" + query},
		backend.CallResourceResponseSenderFunc(func(r *backend.CallResourceResponse) error {
			status, body = r.Status, body+string(r.Body)
			return nil
		}))
	require.NoError(t, err)
	return status, body
}

// Whatever is wrong with directories and files, viewers read base names only.
func TestViewersSeeNoPaths(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "srv-secret")
	require.NoError(t, os.Mkdir(secret, 0o700))
	dir := func(name string, prepare func(dir string)) string {
		path := filepath.Join(secret, name)
		require.NoError(t, os.Mkdir(path, 0o700))
		if prepare != nil {
			prepare(path)
		}
		return path
	}
	whole := func(dir string) {
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: quarters(96)})
	}
	file := func(name, text string) func(string) {
		return func(dir string) {
			whole(dir)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	link := func(name, target string) func(string) {
		return func(dir string) {
			whole(dir)
			_ = os.Remove(filepath.Join(dir, name))
			require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
		}
	}
	for what, jsonData := range map[string]map[string]any{
		"missing":      {"snapshotDir": filepath.Join(secret, "missing")},
		"no directory": {"snapshotDir": filepath.Join(dir("plain", file("x", "")), "x")},
		"empty":        {"snapshotDir": dir("empty", nil)},
		"not absolute": {"snapshotDir": strings.TrimPrefix(secret, "/")},
		"damaged":      {"snapshotDir": dir("damaged", file("gpu_state_2025-10.db", strings.Repeat("no database ", 1000)))},
		"all damaged": {"snapshotDir": dir("all-damaged",
			func(dir string) { require.NoError(t, os.WriteFile(filepath.Join(dir, september), []byte("x"), 0o600)) })},
		"link out":       {"snapshotDir": dir("link", link("gpu_state_2025-10.db", "/etc/hostname"))},
		"list link":      {"snapshotDir": dir("list-link", link("chtc_owned", "/etc/hostname"))},
		"list missing":   {"snapshotDir": dir("list-missing", whole), "chtcOwnedFile": "owned"},
		"list traversal": {"snapshotDir": dir("traversal", whole), "chtcOwnedFile": "../plain/x"},
		"list no YAML":   {"snapshotDir": dir("yaml", file("masked_hosts.yaml", "{"))},
		"list directory": {"snapshotDir": dir("list-dir",
			func(dir string) { whole(dir); require.NoError(t, os.Mkdir(filepath.Join(dir, "chtc_owned"), 0o700)) })},
		"jobs missing": {"snapshotDir": dir("jobs-missing", whole), "jobs": "sqlite"},
		"jobs damaged": {"snapshotDir": dir("jobs-damaged", file("jobs.db", strings.Repeat("no database ", 1000))),
			"jobs": "sqlite"},
		"jobs link": {"snapshotDir": dir("jobs-link", link("jobs.db", "/etc/hostname")), "jobs": "sqlite"},
		"cache is file": {"snapshotDir": dir("cache", file("cache", "")),
			"cacheDir": filepath.Join(secret, "cache", "cache")},
		"cache relative": {"snapshotDir": dir("cache-relative", whole), "cacheDir": strings.TrimPrefix(secret, "/")},
	} {
		t.Run(what, func(t *testing.T) {
			now := begin.AddDate(0, 0, 1)
			d := open(t, now, jsonData)
			all := ""
			for _, answer := range ask(t, d, begin, now, append(views(), `{"queryType": "allocation", "view": "health"}`)...) {
				all += texts(answer) + "\n"
			}
			for _, path := range []string{"range", "values/user", "values/machine"} {
				_, body := resource(t, d, path, "")
				all += body + "\n"
			}
			require.NotContains(t, all, "srv-secret", "a path")
			require.NotContains(t, all, "goroutine")
			health := healthOf(t, d)
			require.NotEmpty(t, health.Message)
		})
	}
	t.Run("outside the allowed", func(t *testing.T) {
		t.Setenv("GF_PLUGIN_ALLOWED_DIRS", secret+"/allowed")
		for _, answer := range ask(t, open(t, begin, map[string]any{"snapshotDir": secret + "/empty"}), begin, begin,
			views()...) {
			require.ErrorContains(t, answer.Error, "allowed_dirs")
			require.NotContains(t, texts(answer), "srv-secret")
		}
	})
}

// Secrets of the settings are nowhere: not in answers, not in the health check, not in the plugin's log.
func TestSecretsStaySecret(t *testing.T) {
	const password, token, inURL = "pa55-of-basic", "t0ken-in-header", "pa55-in-url"
	refuse := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(map[string]int{"/401": 401, "/403": 403, "/500": 500}["/"+strings.Split(r.URL.Path, "/")[1]])
		user, pass, _ := r.BasicAuth()
		_, _ = fmt.Fprintf(w, `{"error": {"type": "security_exception", "reason": "unable to authenticate user [%s] for REST request [%s] with password [%s]"}, "status": 401}`, user, r.URL, pass)
	}))
	defer refuse.Close()
	address, err := url.Parse(refuse.URL)
	require.NoError(t, err)
	path, err := binary()
	require.NoError(t, err)
	var log bytes.Buffer
	process, err := host.Start(path, &log)
	require.NoError(t, err)
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: quarters(96)})
	all := ""
	for i, server := range []string{address.Host + "/401", address.Host + "/403", address.Host + "/500", "127.0.0.1:1"} {
		jsonData, err := json.Marshal(map[string]any{"snapshotDir": dir, "jobs": "elasticsearch", "jobsIndex": "ads",
			"httpHeaderName1": "X-Token"})
		require.NoError(t, err)
		source := process.Source(backend.DataSourceInstanceSettings{
			ID: int64(i), UID: fmt.Sprint("secret", i), Type: plugin.ID, JSONData: jsonData, Updated: time.Unix(int64(i), 0),
			URL:              "http://who:" + inURL + "@" + server,
			BasicAuthEnabled: true, BasicAuthUser: "who",
			DecryptedSecureJSONData: map[string]string{"basicAuthPassword": password, "httpHeaderValue1": token},
		})
		for _, answer := range ask(t, source, begin, begin.AddDate(0, 0, 1), `{"queryType": "evictions"}`,
			`{"queryType": "backfillAvailability", "view": "periods"}`, `{"queryType": "allocation", "view": "health"}`) {
			all += texts(answer) + "\n"
		}
		health, err := source.As("Admin").CheckHealth(t.Context())
		require.NoError(t, err)
		require.Contains(t, health.Message, "Elasticsearch", "the job source was asked")
		all += health.Message + string(health.JSONDetails) + "\n"
	}
	process.Close()
	require.NotEmpty(t, log.String())
	for _, secret := range []string{password, token, inURL} {
		require.NotContains(t, all, secret)
		require.NotContains(t, log.String(), secret)
	}
}

// Data sources of one process answer from their own data, even if they get the same queries at the same time, and their
// files, machines and job ids have the same names.
func TestDataSourcesDoNotMix(t *testing.T) {
	type one struct {
		source *plugin.Datasource
		want   []string
	}
	var all []one
	o := small()
	cache := t.TempDir()
	for seed := range uint64(3) {
		dir := write(t, small(func(o *samplepool.Options) { o.Seed = seed + 1 }))
		owned := filepath.Join(dir, "other_owned")
		require.NoError(t, os.WriteFile(owned, []byte("gpu0001.example.org\n"), 0o600))
		for _, jsonData := range []map[string]any{
			{"snapshotDir": dir, "cacheDir": cache},
			{"snapshotDir": dir, "cacheDir": cache, "chtcOwnedFile": "other_owned"},
			{"snapshotDir": dir, "cacheDir": cache, "timezone": "Asia/Tokyo"},
			{"snapshotDir": dir, "cacheDir": cache, "sliceMinutes": 60, "jobs": "sqlite"},
		} {
			alone := map[string]any{}
			for name, value := range jsonData {
				if name != "cacheDir" {
					alone[name] = value
				}
			}
			var want []string
			for _, answer := range ask(t, open(t, o.End, alone), o.Start, o.End, views()...) {
				want = append(want, rounded(figures(t, answer)))
			}
			all = append(all, one{open(t, o.End, jsonData), want})
		}
	}
	for range 2 {
		var wait sync.WaitGroup
		for n := range all {
			wait.Go(func() {
				for i, answer := range ask(t, all[n].source, o.Start, o.End, views()...) {
					if got := rounded(figures(t, answer)); got != all[n].want[i] {
						t.Errorf("data source %d: %s: %s", n, views()[i], cmp.Diff(all[n].want[i], got))
					}
				}
			})
		}
		wait.Wait()
	}
	different := map[string]bool{}
	for n := range all {
		different[strings.Join(all[n].want, "")] = true
	}
	require.Greater(t, len(different), 6, "a test that could tell them apart")
}

var fraction = regexp.MustCompile(`\d+\.\d{9,}(e[+-]\d+)?`)

// rounded leaves 12 digits of fractions: thirds of a slice that users share add up in the order in which GPUs came to
// be known.
func rounded(text string) string {
	return fraction.ReplaceAllStringFunc(text, func(number string) string {
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return number
		}
		return strconv.FormatFloat(value, 'g', 12, 64)
	})
}

// A query's words reach no file, no SQL and no other zone file: they are compared with known names, or refused.
func TestQueriesAreOnlyWords(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: quarters(96)})
	content, err := os.ReadFile(filepath.Join(dir, september))
	require.NoError(t, err)
	now := begin.AddDate(0, 0, 1)
	d := open(t, now, map[string]any{"snapshotDir": dir})
	for _, word := range []string{"../../../../etc/passwd", "/etc/localtime", "..", "Local",
		"file:gpu_state_2025-09.db?mode=rwc", "'; DROP TABLE gpu_state; --", `" OR 1=1 --`,
		"x' UNION SELECT sql FROM sqlite_master --", "ATTACH 'x' AS y", "%00", "\x00", "{{.}}", "`id`", "$(id)", "*"} {
		quoted, err := json.Marshal(word)
		require.NoError(t, err)
		for _, q := range []string{
			`{"queryType": "allocation", "timezone": %s}`, `{"queryType": %s}`, `{"queryType": "allocation", "view": %s}`,
			`{"queryType": "allocation", "groupBy": [%s]}`, `{"queryType": "allocation", "metrics": [%s]}`,
			`{"queryType": "allocation", "bucket": %s}`, `{"queryType": "allocation", "filter": {"categories": [%s]}}`,
			`{"queryType": "allocation", "filter": {"ownerships": [%s]}}`, `{"queryType": "allocation", "filter": {%[1]s: []}}`,
			`{"queryType": "backfillAvailability", "view": "survival", "duration": %s}`,
		} {
			answer := ask(t, d, begin, now, fmt.Sprintf(q, quoted))[0]
			require.Error(t, answer.Error, q, word)
			require.Equal(t, backend.StatusBadRequest, answer.Status, "%s %s: %v", q, word, answer.Error)
		}
		for _, list := range []string{"machines", "devices", "projects", "users"} {
			answer := ask(t, d, begin, now, fmt.Sprintf(`{"queryType": "userHours", "filter": {%q: [%s]}}`, list, quoted))[0]
			require.NoError(t, answer.Error)
			require.True(t, empty(answer.Frames), "nothing has that name")
			require.Contains(t, notices(answer), "filter."+list+": no value in the time range matches")
		}
		status, _ := resource(t, d, "values/"+url.PathEscape(word), "")
		require.Contains(t, []int{http.StatusNotFound, http.StatusTemporaryRedirect, http.StatusMovedPermanently}, status,
			word)
	}
	after, err := os.ReadFile(filepath.Join(dir, september))
	require.NoError(t, err)
	require.Equal(t, content, after)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// Files that settings name lie inside the snapshot directory, also through links.
func TestLinksInSettings(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: quarters(96)})
	now := begin.AddDate(0, 0, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "real"), []byte("m\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "real"), []byte("m\n"), 0o600))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "inside")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "real"), filepath.Join(dir, "outside")))
	require.NoError(t, os.Symlink(dir, filepath.Join(outside, "pool")))
	for name, refused := range map[string]string{"real": "", "inside": "", "outside": "escapes",
		"../real": "plain file name", "/etc/hostname": "plain file name", "loop": "", ".": "plain file name"} {
		if name == "loop" {
			require.NoError(t, os.Symlink("loop", filepath.Join(dir, "loop")))
			refused = "cannot be read"
		}
		answer := ask(t, open(t, now, map[string]any{"snapshotDir": filepath.Join(outside, "pool"), "chtcOwnedFile": name}),
			begin, now, views()[0])[0]
		if refused == "" {
			require.NoError(t, answer.Error, name)
			continue
		}
		require.ErrorContains(t, answer.Error, refused, name)
		require.NotContains(t, answer.Error.Error(), outside)
	}
	// a pipe in a list's place is not a list, and its writer is not awaited
	for _, c := range []string{"chtcOwnedFile", "hostExclusionsFile"} {
		pipe(t, filepath.Join(dir, c))
		answer := ask(t, open(t, now, map[string]any{"snapshotDir": dir, c: c}), begin, now, views()[0])[0]
		require.ErrorContains(t, answer.Error, "not a regular file", c)
	}
}

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
