package demand_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
)

// open opens a directory of snapshots and of the queues' polls.
func open(t testing.TB, dir string, zone any) runstest.Source {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	s := runstest.Open(t, dir, zone)
	s.Queues = queues.NewStore(queues.Options{Root: root, Path: dir, Names: s.Timeline.Names(), MaxBytes: 1 << 26,
		Parquet: registry.QueueRows})
	return s
}
