package segcache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplaced(t *testing.T) {
	for what, change := range map[string]struct {
		replaced bool
		with     func(t *testing.T, path, other string) error
	}{
		"nothing": {false, func(*testing.T, string, string) error { return nil }},
		"a file in it": {false, func(_ *testing.T, path, _ string) error {
			return os.WriteFile(filepath.Join(path, "file"), nil, 0o600)
		}},
		"renamed": {true, func(_ *testing.T, path, other string) error { return os.Rename(path, other+".old") }},
		"deleted": {true, func(_ *testing.T, path, _ string) error { return os.Remove(path) }},
		"made again": {true, func(t *testing.T, path, _ string) error {
			require.NoError(t, os.Remove(path))
			return os.Mkdir(path, 0o700)
		}},
		"another one in its place": {true, func(t *testing.T, path, other string) error {
			require.NoError(t, os.Remove(path))
			return os.Rename(other, path)
		}},
		"a link to another one": {true, func(t *testing.T, path, other string) error {
			require.NoError(t, os.Remove(path))
			return os.Symlink(other, path)
		}},
		"a link to itself": {false, func(t *testing.T, path, other string) error {
			require.NoError(t, os.Remove(other))
			require.NoError(t, os.Rename(path, other))
			return os.Symlink(other, path)
		}},
		"a file in its place": {true, func(t *testing.T, path, _ string) error {
			require.NoError(t, os.Remove(path))
			return os.WriteFile(path, nil, 0o600)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			in := t.TempDir()
			path, other := filepath.Join(in, "path"), filepath.Join(in, "other")
			require.NoError(t, os.Mkdir(path, 0o700))
			require.NoError(t, os.Mkdir(other, 0o700))
			opened, err := os.OpenRoot(path)
			require.NoError(t, err)
			defer opened.Close()
			require.NoError(t, change.with(t, path, other))
			require.Equal(t, change.replaced, Replaced(opened, path))
		})
	}
	closed, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.True(t, Replaced(closed, closed.Name()), "one that cannot be asked any more")
}
