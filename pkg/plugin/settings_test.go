package plugin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

func TestSettingsDefaults(t *testing.T) {
	s, err := ParseSettings(json.RawMessage(`{"snapshotDir": "/data"}`))
	require.NoError(t, err)
	require.Equal(t, "UTC", s.zone.Key())
	s.zone = nil
	require.Equal(t, Settings{Mode: "pool", SnapshotDir: "/data", TimezoneData: "newest", SliceMinutes: 15,
		ListFiles: snapshots.ListFiles{CHTCOwnedFile: "chtc_owned", HostExclusionsFile: "masked_hosts.yaml",
			GPUTiersFile: "gpu_tiers.yaml", GPUNamesFile: "gpu_names.yaml", ProjectNamesFile: "project_names.yaml"},
		CacheMaxMB: 512, CacheDiskMB: 2048, Jobs: "none", JobsPath: "jobs.db", FiscalYearStart: 1, UserNames: "full",
		Links: true}, s)
	s, err = ParseSettings(json.RawMessage(`{"snapshotBucket": " s3://pool ", "segmentBucket": " s3://days "}`))
	require.NoError(t, err)
	require.Equal(t, []string{"s3://pool", "s3://days"}, []string{s.SnapshotBucket, s.SegmentBucket})
	s, err = ParseSettings(json.RawMessage(`{"snapshotDir": "/data", "sliceMinutes": 0, "timezone": [{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}]}`))
	require.NoError(t, err)
	require.Zero(t, s.SliceMinutes)
	require.Equal(t, "UTC", s.zone.Calendar().String())
}

func TestSettingsRefused(t *testing.T) {
	for settings, words := range map[string][]string{
		`{"snapshotDir": "/data", "mode": "herd"}`:                         {"mode", "use pool or fleet"},
		`{"mode": "fleet"}`:                                                {"factsIndex is not set"},
		`{"mode": "fleet", "factsIndex": "Facts*"}`:                        {"small letters"},
		`{"mode": "fleet", "factsIndex": "facts", "snapshotDir": "/data"}`: {"a separate data source"},
		``:                        {"snapshotDir is not set"},
		`{}`:                      {"snapshotDir is not set"},
		`{"snapshotDir": "data"}`: {"snapshotDir", "not absolute"},
		`{"snapshotDir": "/data", "cacheDir": "cache"}`: {"cacheDir",
			"not absolute"},
		`{"snapshotDir": "/data", "sliceMinutes": 7}`: {"sliceMinutes 7", "0",
			"5", "10", "15", "30", "60"},
		`{"snapshotDir": "/data", "timezone": "Chicago"}`: {"Chicago",
			"America/Chicago"},
		`{"snapshotDir": "/data", "timezone": [{"zone": "UTC", "until": "soon"}, {"zone": "UTC"}]}`: {"until", "soon"},
		`{"snapshotDir": "/data", "jobs": "mysql"}`: {"mysql", "none",
			"sqlite", "elasticsearch"},
		`{"snapshotDir": "/data", "jobsPath": "../jobs.db"}`: {"jobsPath",
			"inside snapshotDir"},
		`{"snapshotDir": "/data", "jobsPath": "/etc/passwd"}`: {"jobsPath",
			"inside snapshotDir"},
		`{"snapshotDir": "/data", "chtcOwnedFile": "lists/owned"}`: {"chtcOwnedFile",
			"plain file name"},
		`{"snapshotDir": "/data", "hostExclusionsFile": ".."}`: {"hostExclusionsFile",
			"plain file name"},
		`{"snapshotDir": "/data", "gpuTiersFile": "other/tiers.yaml"}`: {"gpuTiersFile", "plain file name"},
		`{"snapshotDir": "/data", "cacheMaxMB": 0}`:                    {"cacheMaxMB 0"},
		`{"snapshotDir": "/data", "cacheDiskMB": -1}`:                  {"cacheDiskMB -1"},
	} {
		_, err := ParseSettings(json.RawMessage(settings))
		require.Error(t, err, settings)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err), settings)
		for _, word := range words {
			require.ErrorContains(t, err, word, settings)
		}
	}
}

func TestAllowedDirectories(t *testing.T) {
	base := t.TempDir()
	allowed, outside := filepath.Join(base, "allowed"), filepath.Join(base, "outside")
	for _, dir := range []string{filepath.Join(allowed, "pool"), outside, allowed + "-too"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(allowed, "out")))
	require.NoError(t, os.Symlink(allowed, filepath.Join(outside, "in")))

	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", "")
	require.NoError(t, allow("snapshotDir", outside), "unset: any")

	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", " "+filepath.Join(base, "elsewhere")+" , "+allowed)
	for dir, ok := range map[string]bool{
		"":                                     true,
		allowed:                                true,
		filepath.Join(allowed, "pool"):         true,
		filepath.Join(allowed, "not", "there"): true,
		filepath.Join(outside, "in"):           true,  // a link that leads inside
		filepath.Join(outside, "in", "new"):    true,  // … and a folder that does not exist yet below it
		filepath.Join(allowed, "out"):          false, // a link that leads outside
		filepath.Join(allowed, "out", "new"):   false,
		allowed + "/../outside":                false,
		outside:                                false,
		allowed + "-too":                       false,
		"/":                                    false,
	} {
		err := allow("cacheDir", dir)
		if ok {
			require.NoError(t, err, dir)
		} else {
			require.ErrorContains(t, err, "cacheDir "+dir, dir)
			require.ErrorContains(t, err, "allowed_dirs", "the remedy")
		}
	}
}

// The path that is compared with the allowed ones is the path that is opened: a .. after a link is removed before the
// link is followed.
func TestDirectoriesAreClean(t *testing.T) {
	s, err := ParseSettings(json.RawMessage(`{"snapshotDir": "/allowed/current/..", "cacheDir": "/allowed//cache/"}`))
	require.NoError(t, err)
	require.Equal(t, "/allowed", s.SnapshotDir)
	require.Equal(t, "/allowed/cache", s.CacheDir)
}

// Settings that provisioning makes of variables of the environment are read: numbers and booleans as texts, texts of
// digits as numbers.
func TestSettingsOfOtherTypes(t *testing.T) {
	s, err := ParseSettings([]byte(`{"snapshotDir": "/x", "sliceMinutes": "30", "cacheMaxMB": " 160 ", "links": "false",
		"cacheDiskMB": "", "jobsIndex": 2025, "factsIndex": "facts", "publishTo": {"pool": 7}}`))
	require.NoError(t, err)
	require.Equal(t, 30, s.SliceMinutes)
	require.Equal(t, 160, s.CacheMaxMB)
	require.Equal(t, 2048, s.CacheDiskMB)
	require.False(t, s.Links)
	require.Equal(t, "2025", s.JobsIndex)
	require.Equal(t, "7", s.PublishTo.Pool)
	for _, wrong := range []string{`{"snapshotDir": "/x", "sliceMinutes": "many"}`, `{"snapshotDir": "/x", "links": "1"}`,
		`[1]`, `{"snapshotDir": ["/x"]}`} {
		_, err := ParseSettings([]byte(wrong))
		require.ErrorContains(t, err, "the settings cannot be read", wrong)
	}
}

// FuzzSettings: any jsonData is either refused with a fault of the settings, or names directories by whole paths and
// files by plain names.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, ``, `{"snapshotDir": "/data"}`,
		`{"snapshotDir": "/data", "timezone": [{"until": "2026-05-14 00:00:00", "zone": "America/Chicago"}, {"zone": "UTC"}], "sliceMinutes": 0, "cacheDir": "/cache", "cacheMaxMB": 1, "cacheDiskMB": 0, "jobs": "sqlite", "jobsPath": "jobs.db"}`,
		`{"snapshotDir": "/data", "chtcOwnedFile": "../x"}`, `{"snapshotDir": "/data", "hostExclusionsFile": "a\u0000b"}`,
		`{"snapshotDir": "/data/../etc"}`, `{"snapshotDir": "\\\\server\\share"}`,
		`{"snapshotDir": "/data", "jobsPath": "file:x?mode=rwc"}`,
		`{"snapshotDir": "/data", "cacheMaxMB": 9223372036854775807}`,
		`{"snapshotDir": "/data", "timezone": "../../etc/localtime"}`,
		`{"snapshotDir": "/data", "timezone": [{"until": "0000-00-00 00:00:00", "zone": "UTC"}, {"zone": "Local"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, jsonData []byte) {
		s, err := ParseSettings(json.RawMessage(jsonData))
		if err != nil {
			require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%s", jsonData)
			return
		}
		require.True(t, filepath.IsAbs(s.SnapshotDir))
		require.True(t, s.CacheDir == "" || filepath.IsAbs(s.CacheDir))
		for _, file := range []string{s.CHTCOwnedFile, s.HostExclusionsFile, s.JobsPath} {
			require.Equal(t, filepath.Base(file), file)
			require.NotContains(t, []string{"", ".", ".."}, file)
		}
		require.True(t, slices.Contains([]int{0, 5, 10, 15, 30, 60}, s.SliceMinutes))
		require.Positive(t, int64(s.CacheMaxMB)<<20, "bytes")
		require.GreaterOrEqual(t, int64(s.CacheDiskMB)<<20, int64(0), "bytes")
		require.NotNil(t, s.zone)
	})
}

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
