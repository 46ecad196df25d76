package pluginzip

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder as the build makes it is packed whole; with a file of another program, or without a part, it is refused.
func TestPack(t *testing.T) {
	dist := filepath.Join(t.TempDir(), "dist")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dist, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	for _, part := range parts {
		write(part, part)
	}
	write("img/logo.svg", "<svg/>")
	write(Manifest, "0a:Magefile.go\n0b:pkg/main.go\n")
	name := filepath.Join(t.TempDir(), "plugin.zip")
	require.NoError(t, Pack(name, dist, "an-id"))
	archive, err := zip.OpenReader(name)
	require.NoError(t, err)
	defer archive.Close()
	require.Len(t, archive.File, len(parts)+1)
	for _, file := range archive.File {
		require.Equal(t, os.FileMode(0o755), file.Mode(), "a program stays one")
	}

	require.ErrorContains(t, Check(name, "another-id"), "does not belong into it")
	write(Manifest, "0a:Magefile.go\n0b:tests/next/node_modules/flatted/golang/flatted.go\n")
	require.ErrorContains(t, Pack(name, dist, "an-id"), "tests/next/node_modules/flatted/golang/flatted.go in the list")
	write(Manifest, "0a:Magefile.go\n")
	write("node_modules/a/index.js", "")
	require.ErrorContains(t, Pack(name, dist, "an-id"), "an-id/node_modules/a/index.js does not belong into it")
	require.NoError(t, os.RemoveAll(filepath.Join(dist, "node_modules")))
	require.NoError(t, os.Remove(filepath.Join(dist, "LICENSE")))
	require.ErrorContains(t, Pack(name, dist, "an-id"), "LICENSE")
	require.Error(t, Pack(filepath.Join(name, "in a file"), dist, "an-id"))
}
