package demand_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/runs/runstest"
)

// open opens a directory of snapshots and of the queues' polls.
func open(t testing.TB, dir string, zone any) runstest.Source {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	s := runstest.Open(t, dir, zone)
	s.Queues = pressure.NewStore(pressure.Options{Root: root, Path: dir, Names: s.Timeline.Names(), MaxBytes: 1 << 26})
	return s
}
