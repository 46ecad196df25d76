package demand_test

import (
	"context"
	"os"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs/runstest"
	"github.com/chtc/gpureports/pkg/timeline"
)

// open opens a directory of snapshots and of the queues' polls.
func open(t testing.TB, dir string, zone any) runstest.Source {
	t.Helper()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	var queues *pressure.Store
	s := runstest.Open(t, dir, zone, func(ctx context.Context, tl *timeline.Timeline, ads jobs.Source, env query.Env, r query.Request) (data.Frames, error) {
		return demand.Answer(ctx, tl, queues, ads, env, r)
	})
	queues = pressure.NewStore(pressure.Options{Root: root, Path: dir, Names: s.Timeline.Names(), MaxBytes: 1 << 26})
	t.Cleanup(func() { require.NoError(t, queues.Close()) })
	return s
}
