//go:build unix

package reliability

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
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
