package plugin

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
