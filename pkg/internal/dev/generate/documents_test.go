package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The generated files are what the code says.
func TestDocumentsAreFresh(t *testing.T) {
	read := func(path string) ([]byte, error) { return os.ReadFile(filepath.Join("../../../..", path)) }
	files, err := generated(read)
	require.NoError(t, err)
	for path, want := range files {
		stored, err := read(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(stored), "%s is not what the code says: go generate ./pkg/kinds", path)
	}
}
