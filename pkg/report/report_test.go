package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/golden"
	"github.com/chtc/gpureports/pkg/plugin"
)

var now = time.Date(2025, 10, 2, 0, 10, 0, 0, time.UTC)

// open opens a data source on a directory of month files.
func open(t testing.TB, dir string) *plugin.Datasource {
	jsonData, err := json.Marshal(map[string]any{"snapshotDir": dir, "jobs": "sqlite"})
	require.NoError(t, err)
	source := plugin.Open(backend.DataSourceInstanceSettings{Type: plugin.ID, JSONData: jsonData}, func() time.Time { return now })
	t.Cleanup(source.Dispose)
	return source
}

func TestGolden(t *testing.T) {
	source := open(t, golden.Pool(t, "pool-a"))
	r, err := Make(t.Context(), source, Options{From: now.Add(-48*time.Hour - 10*time.Minute), To: now.Add(-10 * time.Minute), Now: now})
	require.NoError(t, err)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"pool-a.txt":  func(b *bytes.Buffer) error { return r.Text(b, DefaultWidth) },
		"pool-a.html": func(b *bytes.Buffer) error { return r.HTML(b) },
	} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		path := filepath.Join("testdata", name)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), name)
	}
}
