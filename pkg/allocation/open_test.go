package allocation_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// source is a directory of snapshot files, opened.
type source struct {
	*stores.Stores
	env query.Env
}

func open(t testing.TB, dir string, zone any, sliceMinutes int) source {
	t.Helper()
	s := openPool(t, dir, zone, sliceMinutes)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// tester is what tests and property tests have in common.
type tester interface {
	require.TestingT
	Helper()
	Fatalf(format string, args ...any)
}

func openPool(t tester, dir string, zone any, sliceMinutes int) source {
	t.Helper()
	setting, err := json.Marshal(zone)
	require.NoError(t, err)
	z, err := localtime.Parse(setting)
	require.NoError(t, err)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	lists, err := d.Lists(snapshots.ListFiles{})
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: registry.OpenDir(d, z), MaxBytes: 1 << 28})
	return source{stores.New(tl, stores.Divide(1<<28)), query.Env{Zone: z, SliceMinutes: sliceMinutes, Lists: lists}}
}

// ask answers a query in JSON by either kind.
func (s source) ask(t tester, w pool.Window, text string) data.Frames {
	t.Helper()
	frames, err := s.answer(t, w, text)
	require.NoError(t, err, text)
	return frames
}

func (s source) answer(t tester, w pool.Window, text string) (data.Frames, error) {
	t.Helper()
	m, err := query.Parse([]byte(text))
	require.NoError(t, err)
	r := query.Request{Model: m, Window: w, IntervalMs: 60_000, Now: w.To}
	return kinds.Answer(context.Background(), s.Stores, s.env, r)
}
