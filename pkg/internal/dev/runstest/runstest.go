// Package runstest opens directories of snapshots for the tests of the kinds that are about runs.
package runstest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Source is a directory of snapshot files, opened.
type Source struct {
	*stores.Stores
	Env query.Env
}

// Open opens a directory; it is closed when the test ends.
func Open(t testing.TB, dir string, zone any) Source {
	t.Helper()
	setting, err := json.Marshal(zone)
	require.NoError(t, err)
	z, err := localtime.Parse(setting)
	require.NoError(t, err)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	lists, err := d.Lists(snapshots.ListFiles{})
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: registry.OpenDir(d, z), MaxBytes: 1 << 28})
	s := stores.New(tl, stores.Divide(512<<20))
	s.Queues = queues.NewStore(queues.Options{Root: root, Path: dir, Names: tl.Names(), MaxBytes: 1 << 26,
		Parquet: registry.QueueRows})
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.NoError(t, root.Close())
	})
	return Source{s, query.Env{Zone: z, SliceMinutes: 15, Lists: lists}}
}

// Ask answers a query in JSON; now is the window's end.
func (s Source) Ask(t testing.TB, ads jobs.Source, w pool.Window, text string) data.Frames {
	t.Helper()
	m, err := query.Parse([]byte(text))
	require.NoError(t, err)
	frames, err := s.Answer(context.Background(), ads, query.Request{Model: m, Window: w, IntervalMs: 60_000, Now: w.To})
	require.NoError(t, err, text)
	return frames
}

// Answer answers a request with these job ads.
func (s Source) Answer(ctx context.Context, ads jobs.Source, r query.Request) (data.Frames, error) {
	with := *s.Stores
	with.Ads = ads
	return kinds.Answer(ctx, &with, s.Env, r)
}

// Ads are the job ads of files of a golden pool.
func Ads(t testing.TB, name string, files ...string) jobs.Source {
	t.Helper()
	m := jobstest.NewMemory()
	for _, f := range files {
		m.Add(bytes.Split(bytes.TrimSpace(golden.Read(t, name, f)), []byte("\n"))...)
	}
	return m
}

// Sources are the job documents of a golden pool that a variant of expected.json names; history comes in two schemas.
func Sources(t testing.TB, name, variant string) []jobs.Source {
	t.Helper()
	const legacy, refactored, epochs = "jobs_history_legacy.jsonl", "jobs_history_refactored.jsonl", "jobs_epochs.jsonl"
	switch variant {
	case "history":
		return []jobs.Source{Ads(t, name, legacy), Ads(t, name, refactored)}
	case "epochs":
		return []jobs.Source{Ads(t, name, epochs)}
	case "both":
		return []jobs.Source{Ads(t, name, refactored, epochs), Ads(t, name, legacy, epochs)}
	}
	return []jobs.Source{nil}
}

// AdsOf are a case's ads, for a query that uses them.
func AdsOf(t testing.TB, c *golden.Case, q *golden.CaseQuery) jobs.Source {
	t.Helper()
	if q.Jobs != "ads" {
		return nil
	}
	m := jobstest.NewMemory()
	for _, a := range c.Ads {
		document, err := json.Marshal(a.Ad)
		require.NoError(t, err)
		m.Add(document)
	}
	return m
}
