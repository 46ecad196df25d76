package checkout

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoot(t *testing.T) {
	dir, err := Root()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "plugin.json"))
	t.Chdir(t.TempDir())
	_, err = Root()
	require.ErrorContains(t, err, "no checkout")
}
