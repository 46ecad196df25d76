package backfill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/golden"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/jobstest"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/timeline"
)

// source is a directory of snapshot files, opened.
type source struct {
	timeline *timeline.Timeline
	env      query.Env
}

func open(t testing.TB, dir, zone string) source {
	t.Helper()
	setting, err := json.Marshal(zone)
	require.NoError(t, err)
	z, err := localtime.Parse(setting)
	require.NoError(t, err)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	lists, err := d.Lists("chtc_owned", "masked_hosts.yaml")
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Snapshots: d, Zone: z, MaxBytes: 1 << 28})
	t.Cleanup(func() { require.NoError(t, tl.Close()) })
	return source{tl, query.Env{Zone: z, SliceMinutes: 15, Lists: lists}}
}

// ask answers a query in JSON; now is the window's end.
func (s source) ask(t testing.TB, ads jobs.Source, w pool.Window, text string) data.Frames {
	t.Helper()
	m, err := query.Parse([]byte(text))
	require.NoError(t, err)
	frames, err := backfill.Answer(context.Background(), s.timeline, ads, s.env, query.Request{Model: m, Window: w, IntervalMs: 60_000, Now: w.To})
	require.NoError(t, err, text)
	return frames
}

// ads are the job ads of files of a golden pool.
func ads(t testing.TB, name string, files ...string) jobs.Source {
	t.Helper()
	m := jobstest.NewMemory()
	for _, f := range files {
		m.Add(bytes.Split(bytes.TrimSpace(golden.Read(t, name, f)), []byte("\n"))...)
	}
	return m
}

// sources are the job documents of a golden pool, by their names in expected.json; history comes in two schemas.
func sources(t testing.TB, name string) map[string][]jobs.Source {
	t.Helper()
	const legacy, refactored, epochs = "jobs_history_legacy.jsonl", "jobs_history_refactored.jsonl", "jobs_epochs.jsonl"
	return map[string][]jobs.Source{
		"none":    {nil},
		"history": {ads(t, name, legacy), ads(t, name, refactored)},
		"epochs":  {ads(t, name, epochs)},
		"both":    {ads(t, name, refactored, epochs), ads(t, name, legacy, epochs)},
	}
}

// adsOf are a case's ads, for a query that is asked with them.
func adsOf(t testing.TB, c *golden.Case, q *golden.CaseQuery) jobs.Source {
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
