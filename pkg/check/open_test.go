package check

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// good are the options of a pool without a fault.
func good(change ...func(*samplepool.Options)) samplepool.Options {
	o := samplepool.RightClocks()
	o.Machines = 8
	o.Start, o.End = time.Date(2025, 10, 28, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 4, 0, 0, 0, 0, time.UTC)
	o.NewColumns = o.Start
	for _, c := range change {
		c(&o)
	}
	return o
}

// written are the directories of the pools that were made, for tests to copy.
var written = map[samplepool.Options]string{}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range written {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// made makes a pool and writes its snapshots into a directory of the test's own.
func made(t *testing.T, o samplepool.Options) (*samplepool.Pool, string) {
	t.Helper()
	p, err := samplepool.New(o)
	require.NoError(t, err)
	if written[o] == "" {
		dir, err := os.MkdirTemp("", "gpureports-check-")
		require.NoError(t, err)
		written[o] = dir
		require.NoError(t, p.WriteSnapshots(context.Background(), dir))
	}
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(written[o])))
	return p, dir
}

// documents are a pool's ads in the refactored schema.
func documents(t *testing.T, p *samplepool.Pool) (all [][]byte) {
	t.Helper()
	ads, err := p.Ads(context.Background())
	require.NoError(t, err)
	for _, ad := range ads {
		all = append(all, ad.JSON)
	}
	return all
}

// open opens a directory as an installation.
func open(t *testing.T, dir string, zone string, now time.Time) Installation {
	t.Helper()
	snapshotDir, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	setting := json.RawMessage(zone)
	if !strings.HasPrefix(zone, "[") {
		setting, err = json.Marshal(zone)
		require.NoError(t, err)
	}
	parsed, err := localtime.Parse(setting)
	require.NoError(t, err)
	lists, err := snapshotDir.Lists(snapshots.ListFiles{})
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: registry.OpenDir(snapshotDir, parsed), MaxBytes: 256 << 20})
	s := stores.New(tl, stores.Divide(256<<20))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return Installation{Stores: s, Dir: snapshotDir, Zone: parsed, SliceMinutes: 15, Lists: lists, Now: now.UnixMicro(),
		Last: 7 * pool.Day}
}

// withAds gives an installation these job ads.
func withAds(in Installation, documents ...[]byte) Installation {
	with := *in.Stores
	with.Ads = jobstest.NewMemory(documents...)
	in.Stores = &with
	return in
}

// look returns the findings by store.
func look(t *testing.T, in Installation) map[string]Finding {
	t.Helper()
	findings, err := Look(context.Background(), in)
	require.NoError(t, err)
	found := map[string]Finding{}
	for _, f := range findings {
		require.NotContains(t, found, f.Store, "two findings of one store")
		require.Contains(t, Severities, f.Severity)
		require.NotEmpty(t, f.Text)
		require.NotContains(t, f.Text, "%!", "a broken format")
		_, err := json.Marshal(f)
		require.NoError(t, err)
		found[f.Store] = f
	}
	return found
}

func worse(found map[string]Finding) (texts []string) {
	for _, f := range found {
		if f.Severity == Warning || f.Severity == Error {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

func TestGoodPool(t *testing.T) {
	p, dir := made(t, good())
	found := look(t, withAds(open(t, dir, "UTC", p.Options().End), documents(t, p)...))
	require.Empty(t, worse(found))
	for _, store := range []string{"gpu_state_2025-10.db", "gpu_state_2025-11.db", "gaps", "timezone", "exclusions", "lag",
		"schema", "links", "clocks"} {
		require.Equal(t, OK, found[store].Severity, "%s: %+v", store, found[store])
	}
	require.Equal(t, Note, found["columns"].Severity)
	require.Contains(t, found["columns"].Text, "no column SlotBrokenReason in 2025-10, 2025-11",
		"the sample pool has none")
	require.Contains(t, found["gpu_state_2025-10.db"].Text, "2025-10: 384 snapshots from 2025-10-28 00:00 to "+
		"2025-10-31 23:45 UTC, every 15 min")
	require.Contains(t, found["schema"].Text, "refactored")
	require.Greater(t, found["links"].Details["linkRate"], 95.0)
	require.NotContains(t, found, "cadence")
	require.NotContains(t, found, "files")
}

func TestNoJobSource(t *testing.T) {
	p, dir := made(t, good())
	found := look(t, open(t, dir, "UTC", p.Options().End))
	require.Empty(t, worse(found))
	for _, store := range []string{"lag", "schema", "links", "clocks"} {
		require.NotContains(t, found, store)
	}
}

func TestEmptyDirectory(t *testing.T) {
	in := open(t, t.TempDir(), "UTC", time.Now())
	require.Empty(t, look(t, in), "the health check says so")
}

func TestCancelled(t *testing.T) {
	p, dir := made(t, good())
	in := withAds(open(t, dir, "UTC", p.Options().End))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Look(ctx, in)
	require.ErrorIs(t, err, context.Canceled)
}
