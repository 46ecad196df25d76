package reliability

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/plugin"
)

// binary is the plugin's own, built once.
var binary = sync.OnceValues(func() (string, error) {
	return host.Build(context.Background(), scratch)
})

// start starts the binary as Grafana does, with more of an environment.
func start(t testing.TB, environment ...string) *host.Process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	var log bytes.Buffer
	process, err := host.Start(path, &log, environment...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ended := process.Exited()
		process.Close()
		if t.Failed() && ended { // it was not ended by the test: its last words
			text := log.String()
			t.Logf("the plugin ended: …%s", text[max(0, len(text)-20_000):])
		}
	})
	return process
}

// gauges are the process's own measures.
type gauges struct {
	goroutines, handles int
	residentMB          float64
}

func measure(t testing.TB, process *host.Process) (g gauges) {
	t.Helper()
	text, err := process.CollectMetrics(context.Background())
	require.NoError(t, err)
	value := func(name string) float64 {
		_, rest, found := strings.Cut("\n"+string(text), "\n"+name+" ")
		require.True(t, found, name)
		line, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(line, 64)
		require.NoError(t, err, name)
		return v
	}
	return gauges{int(value("go_goroutines")), int(value("process_open_fds")),
		value("process_resident_memory_bytes") / (1 << 20)}
}

// saved returns a data source's settings as they are saved for the n-th time.
func saved(t testing.TB, n int, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	s := settings(t, jsonData)
	s.ID, s.UID, s.Updated = int64(n), fmt.Sprint("uid", n), time.Unix(int64(n), 0)
	s.Type = plugin.ID
	return s
}

// files below a directory whose names end in a suffix.
func files(t testing.TB, dir, suffix string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, suffix) {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}
