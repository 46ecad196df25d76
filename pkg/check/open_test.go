package check

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
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

func TestSchema(t *testing.T) {
	p, dir := made(t, good())
	ads, err := p.Ads(t.Context())
	require.NoError(t, err)
	var legacy, refactored, mixed [][]byte
	for i, ad := range ads {
		if ad.Epoch {
			continue
		}
		legacy, refactored = append(legacy, ad.Legacy), append(refactored, ad.JSON)
		mixed = append(mixed, [][]byte{ad.Legacy, ad.JSON}[i%2])
	}
	in := open(t, dir, "UTC", p.Options().End)
	for text, documents := range map[string][][]byte{"legacy one": legacy, "refactored one": refactored, "mixed": mixed,
		"none of": nil} {
		found := look(t, withAds(in, documents...))
		require.Contains(t, found["schema"].Text, text)
		require.Equal(t, documents == nil, found["schema"].Severity == Note)
	}
}

func TestLag(t *testing.T) {
	snapshot := now.UnixMicro() - 10*pool.Minute
	for _, c := range []struct {
		newest   time.Time
		severity string
		text     string
	}{
		{time.Time{}, Warning, "no job ads found"},
		{now.Add(-30 * time.Minute), OK, "20 min older than the newest snapshot"},
		{now.Add(-5 * time.Minute), OK, "newer than the newest snapshot"},
		{now.Add(-5 * time.Hour), Warning, "4 h 50 min before the snapshots"},
		{now.Add(time.Hour), Warning, "of the future"},
	} {
		found := lagFinding(c.newest, snapshot, now.UnixMicro())
		require.Equal(t, c.severity, found.Severity, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

func TestLinks(t *testing.T) {
	week := pool.Window{To: 7 * pool.Day}
	for _, c := range []struct {
		rate     float64
		schemas  schemas
		severity string
		text     string
	}{
		{99, schemas{jobs: 100, without: 1}, OK, "explain 99.0 %"},
		{70, schemas{jobs: 100, without: 60}, Warning, "ads of all access points"},
		{40, schemas{jobs: 100, without: 5}, Warning, "collect epoch ads"},
		{40, schemas{jobs: 100, without: 5}, Warning, "Below 50%"},
		{math.NaN(), schemas{jobs: 4}, Note, "fewer than 20"},
	} {
		found := linksFinding(c.rate, c.schemas, week)
		require.Equal(t, c.severity, found.Severity, found.Text)
		require.Contains(t, found.Text, c.text)
	}
}

// Ads that lack exit codes and peaks of memory, as a job file of an earlier version has them, are named with the store.
func TestAdsWithoutAttributes(t *testing.T) {
	p, dir := made(t, good())
	in := open(t, dir, "UTC", p.Options().End)
	ads := documents(t, p)
	require.NotContains(t, look(t, withAds(in, ads...)), "attributes")
	without := func(names ...string) (all [][]byte) {
		for _, text := range ads {
			var ad map[string]any
			require.NoError(t, json.Unmarshal(text, &ad))
			for _, name := range names {
				delete(ad, name)
			}
			text, err := json.Marshal(ad)
			require.NoError(t, err)
			all = append(all, text)
		}
		return all
	}
	found := look(t, withAds(in, without("GPUsMemoryUsage")...))["attributes"]
	require.Equal(t, Note, found.Severity)
	require.Contains(t, found.Text, "usedMemory is Unknown")
	require.NotContains(t, found.Text, "ExitCode")
	found = look(t, withAds(in, without("ExitCode", "ExitBySignal")...))["attributes"]
	require.Equal(t, Warning, found.Severity)
	require.Regexp(t, "^attributes: in the .+, [0-9]+ of [0-9]+ ads of completed jobs lack ExitCode", found.Text)
	require.NotContains(t, found.Text, "GPUsMemoryUsage")
	require.Contains(t, found.Text, "import everything that condor_history prints again")
}

// A pool of whose jobs only a few have an ad, and a source that fails or answers in part.
func TestPoorSources(t *testing.T) {
	p, dir := made(t, good())
	ads := documents(t, p)
	in := open(t, dir, "UTC", p.Options().End)
	found := look(t, withAds(in, ads[len(ads)/2:len(ads)/2+30]...))
	require.Equal(t, Warning, found["links"].Severity)
	require.Less(t, found["links"].Details["linkRate"], 50.0)
	require.Contains(t, found["links"].Text, "ads of all access points")

	source := jobstest.NewMemory(ads...)
	source.Notices = []string{"2 of 5 shards failed"}
	in.Ads = source
	require.Equal(t, Warning, look(t, in)["ads"].Severity)

	source.Err = pool.SourceError("the server is away")
	found = look(t, in)
	require.NotContains(t, found, "links", "the health check says it")
	require.Contains(t, found, "gaps", "all else is reported")
}

// Months whose averages have lost their fractions are named, in either format; those of startds are not.
func TestUsage(t *testing.T) {
	for _, format := range []string{"sqlite", "parquet"} {
		p, dir := made(t, good(func(o *samplepool.Options) { o.Format = format }))
		_, suspicious := look(t, open(t, dir, "UTC", p.Options().End))["usage"]
		require.False(t, suspicious)
	}
	for change, want := range map[string]string{
		"GPUsAverageUsage = CAST(GPUsAverageUsage AS INTEGER)": "GPUsAverageUsage cannot be right in 2025-10 (whole " +
			"numbers only): ",
		"GPUsAverageUsage = 0":    "GPUsAverageUsage cannot be right in 2025-10 (all 0): ",
		"GPUsAverageUsage = NULL": "",
	} {
		p, dir := made(t, good())
		db, err := sql.Open("sqlite", filepath.Join(dir, "gpu_state_2025-10.db"))
		require.NoError(t, err)
		_, err = db.Exec("UPDATE gpu_state SET " + change + " WHERE GPUsAverageUsage IS NOT NULL")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		found := look(t, open(t, dir, "UTC", p.Options().End))["usage"]
		if want == "" {
			require.Empty(t, found)
			continue
		}
		require.Equal(t, Warning, found.Severity)
		require.Contains(t, found.Text, want)
		require.NotContains(t, found.Text, "2025-11")
	}
}
