package plugin

import (
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// health runs a health check and returns its findings by store.
func health(t *testing.T, d *Datasource) (*backend.CheckHealthResult, map[string]finding) {
	t.Helper()
	result, err := d.CheckHealth(context.Background(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
	require.NoError(t, err)
	var details struct{ Findings []finding }
	require.NoError(t, json.Unmarshal(result.JSONDetails, &details))
	found := map[string]finding{}
	for _, f := range details.Findings {
		require.Empty(t, found[f.Store].Store, "two findings of %s", f.Store)
		require.Contains(t, strings.ToLower(result.Message), strings.ToLower(strings.TrimRight(f.Text, ".")))
		found[f.Store] = f
	}
	return result, found
}

func severities(found map[string]finding) map[string]string {
	all := map[string]string{}
	for store, f := range found {
		all[store] = f.Severity
	}
	return all
}

func TestHealthAllWell(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.ClockSkew = 0 })
	dir, _ := writePool(t, o)
	cache := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", dir+","+cache)
	d := open(t, o.End, map[string]any{"snapshotDir": link, "cacheDir": cache, "jobs": "sqlite"})
	result, found := health(t, d)
	require.Equal(t, backend.HealthStatusOk, result.Status, result.Message)
	require.Equal(t, map[string]string{"snapshots": "ok", "timezone": "ok", "jobs": "ok", "cache": "ok",
		"directories": "ok", "clocks": "ok"}, severities(found), result.Message)
	require.Contains(t, found["snapshots"].Text, "in "+dir, "the path as resolved")
	require.Equal(t, dir, found["snapshots"].Details["path"])
	require.Contains(t, found["snapshots"].Text, "2 month file(s)")
	require.Contains(t, found["jobs"].Text, "jobs.db")
	require.Contains(t, found["cache"].Text, cache)
	require.Contains(t, found["directories"].Text, "this server allows")
}

// Without epoch ads that tell what jobs have saved a note says how to get them.
func TestHealthWithoutCheckpoints(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	db, err := sql.Open("sqlite", filepath.Join(dir, "jobs.db"))
	require.NoError(t, err)
	_, err = db.Exec("DELETE FROM ads WHERE kind = 'epoch'")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite"}))
	require.Equal(t, check.Note, found["jobs"].Severity)
	require.Contains(t, found["jobs"].Text, "No epoch ad has JobLastCheckpointTime")
	require.Contains(t, found["jobs"].Text, "ADSTASH_SCHEDD_JOB_EPOCH_HISTORY = True")
}

func TestHealthRowsAndNewest(t *testing.T) {
	o := small()
	dir, p := writePool(t, o)
	rows, newest := 0, time.Time{}
	for s, err := range p.Snapshots(context.Background()) {
		require.NoError(t, err)
		rows += len(s.Rows)
		newest = s.Time
	}
	_, found := health(t, open(t, newest.Add(7*time.Minute), map[string]any{"snapshotDir": dir}))
	require.InDelta(t, rows, found["snapshots"].Details["rows"], 0)
	require.Contains(t, found["snapshots"].Text, "(7 min old)")
	require.InDelta(t, (7 * time.Minute).Seconds(), found["snapshots"].Details["ageSeconds"], 61,
		"snapshots under a minute apart are one")
	require.Contains(t, found["jobs"].Text, "none", "without a job source its absence is said")
}

func TestHealthStale(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	result, found := health(t, open(t, o.End.Add(3*time.Hour), map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusOk, result.Status, "old snapshots still answer")
	require.Equal(t, check.Warning, found["snapshots"].Severity)
	require.Contains(t, found["snapshots"].Text, "(3 h ")
	require.Contains(t, found["snapshots"].Text, "check its cron job")
	require.True(t, strings.HasPrefix(result.Message, "Warning: Snapshots:"), "the worst first: %s", result.Message)
}

func TestHealthDirectory(t *testing.T) {
	o := small()
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	for dir, words := range map[string][]string{
		missing: {missing, "does not exist", "snapshotDir", "mounted"},
		empty:   {empty, "no month file gpu_state_YYYY-MM.db", "collector"},
	} {
		result, _ := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
		require.Equal(t, backend.HealthStatusError, result.Status)
		for _, word := range words {
			require.Contains(t, result.Message, word)
		}
	}
}

func TestHealthBrokenFileAmongGoodOnes(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu_state_2025-09.db"),
		[]byte(strings.Repeat("no database ", 1000)), 0o600))
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusOk, result.Status, "the other files answer")
	require.Equal(t, check.Warning, found["gpu_state_2025-09.db"].Severity)
	require.Contains(t, found["gpu_state_2025-09.db"].Text, "not a SQLite file: restore it")
	require.Equal(t, check.OK, found["snapshots"].Severity)
	require.Contains(t, found["snapshots"].Text, "2 month file(s)", "those that can be read")

	for _, name := range []string{"gpu_state_2025-10.db", "gpu_state_2025-11.db"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	result, _ = health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusError, result.Status, "no file can be read")
}

func TestHealthCache(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusOk, result.Status)
	require.Contains(t, found["cache"].Text, "in memory only", "no cacheDir is said")
	require.Contains(t, found["cache"].Text, "Set cacheDir")

	// a directory that is a file cannot be used, and answers are right anyway
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	result, found = health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "cacheDir": file}))
	require.Equal(t, backend.HealthStatusOk, result.Status)
	require.Equal(t, check.Warning, found["cache"].Severity)
	require.Contains(t, found["cache"].Text, file+" cannot be used")
	require.Contains(t, found["cache"].Text, "write access")
}

// A cache that is too small is reported once a panel has needed it, with a setting that suffices.
func TestHealthMemory(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Machines, o.GPUs = 40, 160 })
	dir, _ := writePool(t, o)
	asked := func(cacheMaxMB int) map[string]finding {
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "cacheMaxMB": cacheMaxMB})
		_, found := health(t, d)
		require.NotContains(t, found, "memory")
		require.Len(t, answered(t, d, queryOf(t, o, "A", `{"queryType": "evictions", "view": "summary"}`)), 1)
		_, found = health(t, d)
		return found
	}
	little := asked(1)["memory"]
	require.Equal(t, check.Warning, little.Severity)
	enough := int(little.Details["cacheMaxMB"].(float64))
	require.Contains(t, little.Text, "Set it to at least "+strconv.Itoa(enough))
	require.NotContains(t, asked(enough+1), "memory")
}

func TestHealthLists(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"), []byte("excluded_hosts: [a, b]\n"), 0o600))
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusError, result.Status, "no query is answered without the list")
	require.Contains(t, found["lists"].Text, "hostExclusionsFile")
}

func TestHealthJobs(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": "none.db"}))
	require.Equal(t, backend.HealthStatusError, result.Status, "a configured store does not answer")
	require.Equal(t, check.Error, found["jobs"].Severity)
	require.Contains(t, found["jobs"].Text, "none.db")

	outside := filepath.Join(t.TempDir(), "jobs.db")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.db")))
	_, found = health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": "link.db"}))
	require.Equal(t, check.Error, found["jobs"].Severity, "a link that leads out of the directory")
	require.Contains(t, found["jobs"].Text, "link.db")
}
