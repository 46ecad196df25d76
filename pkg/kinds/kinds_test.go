package kinds

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the front end and the documents say of the kinds is what the kinds say of themselves.
func TestDocumentsAreFresh(t *testing.T) {
	read := func(path string) ([]byte, error) { return os.ReadFile(filepath.Join("../..", path)) }
	documents, err := Documents(read)
	require.NoError(t, err)
	for path, want := range documents {
		stored, err := read(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(stored), "%s is not what the kinds say: go generate ./pkg/kinds", path)
	}
}

// Each view of a kind can be planned and is described, and what it names exists.
func TestKindsDescribeThemselves(t *testing.T) {
	names := map[string]bool{}
	for _, k := range Catalog {
		require.False(t, names[k.Name], k.Name)
		names[k.Name] = true
		require.NotEmpty(t, k.Label)
		require.NotEmpty(t, k.Description)
		require.NotEmpty(t, k.Views)
		views := map[string]bool{}
		for _, v := range k.Views {
			require.False(t, views[v.Name], "%s/%s", k.Name, v.Name)
			views[v.Name] = true
			require.NotEmpty(t, v.Label, "%s/%s", k.Name, v.Name)
			require.NotEmpty(t, v.Description, "%s/%s", k.Name, v.Name)
			require.Subset(t, v.Metrics, v.DefaultMetrics)
			require.Subset(t, k.Views[0].GroupBy, k.DefaultGroupBy)
		}
	}
}
