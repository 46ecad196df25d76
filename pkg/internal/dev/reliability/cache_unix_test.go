//go:build unix

package reliability

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/security/createapikey"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/clusterprivilege"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/indexprivilege"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// threeDays writes a month file into dir and returns the end.
func threeDays(t *testing.T, dir string) (to time.Time) {
	t.Helper()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: quarters(3 * 96)})
	return begin.AddDate(0, 0, 3)
}

func healthOf(t *testing.T, d backend.CheckHealthHandler) *backend.CheckHealthResult {
	t.Helper()
	result, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
		PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
	require.NoError(t, err)
	return result
}

// cacheFiles are the names in the cache's folder.
func cacheFiles(t *testing.T, cache string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(cache, "gpureports-segments"))
	require.NoError(t, err)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".limit" { // shows the budget of a data source, without data
			names = append(names, e.Name())
		}
	}
	return names
}

// A disk that is full (no file may become longer than 100 bytes): answers are right, the health check says why, no file
// is left over.
func TestCacheOnFullDisk(t *testing.T) {
	inChild(t, func(dir string) { threeDays(t, dir) }, func(dir string) {
		cache := filepath.Join(dir, "cache")
		require.NoError(t, os.Mkdir(cache, 0o700))
		var before syscall.Rlimit
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
		full := before
		full.Cur = 100
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full))
		to := begin.AddDate(0, 0, 3)
		d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": cache})
		requireAsFresh(t, d, dir, begin, to, "full")
		require.Contains(t, healthOf(t, d).Message, "cannot be used: write the segment cache: file too large")
		require.Empty(t, cacheFiles(t, cache))

		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		d = open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": cache})
		requireAsFresh(t, d, dir, begin, to, "with room")
		require.NotContains(t, healthOf(t, d).Message, "cannot be used")
		require.NotEmpty(t, cacheFiles(t, cache))
	})
}

// A cache directory that may not be written: answers are right, the health check says why.
func TestReadOnlyCacheDirectory(t *testing.T) {
	inChild(t, func(dir string) {
		threeDays(t, dir)
		for _, mode := range []os.FileMode{0o555, 0o755} {
			parent := filepath.Join(dir, mode.String())
			require.NoError(t, os.Mkdir(parent, 0o755))
			if mode == 0o755 { // the cache of another user
				require.NoError(t, os.Mkdir(filepath.Join(parent, "gpureports-segments"), 0o755))
			}
			require.NoError(t, os.Chmod(parent, mode))
		}
	}, func(dir string) {
		becomeNobody(t)
		to := begin.AddDate(0, 0, 3)
		for _, cache := range []string{"-r-xr-xr-x", "-rwxr-xr-x"} {
			d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": filepath.Join(dir, cache)})
			requireAsFresh(t, d, dir, begin, to, cache)
			health := healthOf(t, d)
			require.Equal(t, backend.HealthStatusOk, health.Status)
			require.Contains(t, health.Message, "cannot be used")
			require.Contains(t, health.Message, "give the user that runs Grafana write access")
		}
	})
}

// A month file that may not be read is named in a notice, and the others answer.
func TestUnreadableFile(t *testing.T) {
	inChild(t, func(dir string) {
		threeDays(t, dir)
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{october: quarters(10)})
		require.NoError(t, os.Chmod(filepath.Join(dir, october), 0))
	}, func(dir string) {
		becomeNobody(t)
		to := begin.AddDate(0, 0, 3)
		d := open(t, to, map[string]any{"snapshotDir": dir})
		answer := ask(t, d, begin, to, views()[0])[0]
		require.NoError(t, answer.Error)
		require.False(t, empty(answer.Frames))
		require.Contains(t, notices(answer), october+" cannot be opened: check that the user that runs Grafana may read it")
		require.Contains(t, healthOf(t, d).Message, october+" cannot be opened")
	})
}

// The cache's folder is its user's own, and only files of the cache's making are ever deleted.
func TestCacheIsPrivate(t *testing.T) {
	dir := t.TempDir()
	to := threeDays(t, dir)
	cache := t.TempDir()
	folder := filepath.Join(cache, "gpureports-segments")
	require.NoError(t, os.Mkdir(folder, 0o755))
	const leftBehind, beingWritten = "0123456789abcdef-2025-09-01.segment.0123456789abcdef.part",
		"0123456789abcdef-2025-09-02.segment.0123456789abcdef.part"
	kept := map[string]bool{leftBehind: false, beingWritten: true, "notes.part": true, "README": true,
		"0123456789abcdef-2025-09-01.segment.bak": true}
	old := time.Now().Add(-2 * time.Hour)
	for name := range kept {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("mine"), 0o600))
		if name != beingWritten {
			require.NoError(t, os.Chtimes(filepath.Join(folder, name), old, old))
		}
	}
	d := open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": cache, "cacheDiskMB": 0})
	requireAsFresh(t, d, dir, begin, to, "nothing may be kept")
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	found := map[string]bool{}
	for _, name := range cacheFiles(t, cache) {
		found[name] = true
		require.True(t, kept[name], name)
	}
	for name, keep := range kept {
		require.Equal(t, keep, found[name], name)
	}

	// a link out of the cache directory is not followed
	elsewhere, linked := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(linked, "gpureports-segments")))
	d = open(t, to, map[string]any{"snapshotDir": dir, "cacheDir": linked})
	requireAsFresh(t, d, dir, begin, to, "a link")
	require.Contains(t, healthOf(t, d).Message, "cannot be used")
	entries, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, entries)
}

const securedAlias = "gpu-facts-secured"

// apiKey makes an API key with rights on the alias of the facts and their indices.
func apiKey(t *testing.T, es *elastic.Client, name string, cluster []clusterprivilege.ClusterPrivilege,
	rights ...indexprivilege.IndexPrivilege) string {
	t.Helper()
	answer, err := createapikey.New(es).Name(name).RoleDescriptors(map[string]types.RoleDescriptor{"facts": {
		Cluster: cluster, Indices: []types.IndicesPrivileges{{Names: []string{securedAlias, securedAlias + "-*"},
			Privileges: rights}}}}).Do(t.Context())
	require.NoError(t, err)
	return answer.Encoded
}

// With security on, publishing and asking need the rights that the documentation names, and no more. Keys that are
// wrong, or lack a right, are errors that say so; keys are in no answer, no health check and no line of the log.
func TestFactsWithSecurity(t *testing.T) {
	url := jobstest.SecuredElasticsearch(t)
	es, err := elastic.New(strings.Replace(url, "://", "://admin:"+jobstest.Password+"@", 1), nil, elastic.Remedies{})
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

const childVariable = "GPUREPORTS_RELIABILITY_DIR"

// inChild runs the test once more in a process of its own, with a directory that may be read by everybody, and there
// body. What body does to its process ends with it.
func inChild(t *testing.T, prepare func(dir string), body func(dir string)) {
	t.Helper()
	if dir := os.Getenv(childVariable); dir != "" {
		body(dir)
		return
	}
	dir, err := os.MkdirTemp("", "gpureports-reliability-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755))
	prepare(dir)
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "the child ran nothing")
}

// becomeNobody gives up root's right to read and write everything.
func becomeNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	require.NoError(t, syscall.Setgroups(nil))
	require.NoError(t, syscall.Setgid(nobody))
	require.NoError(t, syscall.Setuid(nobody))
}

// pipe makes a named pipe.
func pipe(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(path, 0o600))
}
