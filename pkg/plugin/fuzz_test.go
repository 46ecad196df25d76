package plugin

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

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
		require.True(t, slices.Contains(sliceMinutes, s.SliceMinutes))
		require.Positive(t, int64(s.CacheMaxMB)<<20, "bytes")
		require.GreaterOrEqual(t, int64(s.CacheDiskMB)<<20, int64(0), "bytes")
		require.NotNil(t, s.zone)
	})
}
