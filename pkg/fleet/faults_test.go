package fleet_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// Publishing since an earlier time is ended after its first day: the hours after that day are never published.
func TestPublishingEarlierHoursIsEnded(t *testing.T) {
	m, url := startMemoryES(t)
	dir, o := smallPool(t, 13)
	d := plugin.Open(settings(t, url, map[string]any{"snapshotDir": dir, "timezone": "UTC", "factsIndex": "gpu-facts"}),
		func() time.Time { return o.End })
	t.Cleanup(d.Dispose)
	// the first publishing began late
	require.NoError(t, plugin.Publish(t.Context(), d, publish.Options{Pool: "p",
		Since: o.Start.Add(12 * 24 * time.Hour)}, func(publish.Part) {}))
	// then all of it is wanted, and the command is ended during its second day
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := plugin.Publish(ctx, d, publish.Options{Pool: "p", Since: o.Start}, func(publish.Part) { cancel() })
	require.Error(t, err)
	// the next one resumes at that hour
	require.NoError(t, plugin.Publish(t.Context(), d, publish.Options{Pool: "p"}, func(publish.Part) {}))
	of, since, through := m.hours()
	missing := 0
	for h := since; h < through; h += 3_600_000 {
		if of[h] == 0 {
			missing++
		}
	}
	require.Zero(t, missing, "hours that the checkpoint says are there (%s to %s) and are not",
		time.UnixMilli(since).UTC(), time.UnixMilli(through).UTC())
}

// The setting timezone is corrected to one whose hours begin at half past, and all is published again as the error
// says.
func TestPublishingInAnotherZone(t *testing.T) {
	m, url := startMemoryES(t)
	dir, o := smallPool(t, 2)
	open := func(zone string) *plugin.Datasource {
		d := plugin.Open(settings(t, url, map[string]any{"snapshotDir": dir, "timezone": zone, "factsIndex": "gpu-facts"}),
			func() time.Time { return o.End })
		t.Cleanup(d.Dispose)
		return d
	}
	require.NoError(t, plugin.Publish(t.Context(), open("UTC"), publish.Options{Pool: "p"}, func(publish.Part) {}))
	err := plugin.Publish(t.Context(), open("Asia/Kolkata"), publish.Options{Pool: "p"}, func(publish.Part) {})
	require.ErrorContains(t, err, "publish all of them again with --since")
	require.NoError(t, plugin.Publish(t.Context(), open("Asia/Kolkata"), publish.Options{Pool: "p",
		Since: o.Start.Add(-24 * time.Hour)}, func(publish.Part) {}))
	of, since, through := m.hours()
	n := 0
	for h, docs := range of {
		if h >= since && h < through {
			n += docs
		}
	}
	require.Equal(t, int((through-since)/3_600_000), n, "facts of hours in the time that the checkpoint names")
}

// What any user may write into a job (request_gpus = 1e308, +ChtcProjects = "…") does not end the publishing of a pool:
// Elasticsearch refuses keywords of more than 32,766 bytes, and JSON has no infinity.
func TestHostileJobs(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	dir, o := smallPool(t, 2)
	files, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	db, err := sql.Open("sqlite", files[0])
	require.NoError(t, err)
	at := o.Start.Add(26 * time.Hour).Unix()
	var near int64
	require.NoError(t, db.QueryRow("SELECT max(last_seen) FROM job_pressure WHERE last_seen <= ?", at).Scan(&near))
	long := strings.Repeat("x", 40_000)
	for n := range 2 {
		_, err = db.Exec("INSERT INTO job_pressure (GlobalJobId, ScheddName, Owner, RequestGPUs, QDate, ChtcProjects, "+
			"first_seen, last_seen) VALUES (?, ?, ?, 1e308, ?, ?, ?, ?)", fmt.Sprintf("ap#%d.0#%d%s", 900+n, near-7200, long),
			long, long, near-7200, long, near-7200, near)
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	d := plugin.Open(settings(t, server, map[string]any{"snapshotDir": dir, "timezone": "UTC",
		"factsIndex": fmt.Sprint("facts-hostile-", time.Now().UnixNano())}), func() time.Time { return o.End })
	t.Cleanup(d.Dispose)
	require.NoError(t, plugin.Publish(t.Context(), d, publish.Options{Pool: "p"}, func(publish.Part) {}))
	answer := ask(t, d, parse(t, `{"queryType": "demand", "view": "waiting"}`),
		pool.Window{From: o.Start.UnixMicro(), To: near * pool.Second})
	require.NoError(t, answer.Error)
	notices := golden.Told(answer.Frames)
	require.Contains(t, notices, "8 texts are longer than 1024 bytes: cut")
	require.Contains(t, notices, "2 rows ask for more than 10000 GPUs: left out")
}

// Two pools are published under one name: each takes the other's facts away, again and again, without a word.
func TestTwoPoolsOfOneName(t *testing.T) {
	m, url := startMemoryES(t)
	pool := func(seed uint64) (*plugin.Datasource, func() error) {
		o := samplepool.Default()
		o.Seed, o.Machines, o.GPUs, o.Timezone = seed, 6, 20, "UTC"
		o.Start = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
		o.End = o.Start.Add(20 * time.Hour)
		dir := poolOf(t, o)
		d := plugin.Open(settings(t, url, map[string]any{"snapshotDir": dir, "timezone": "UTC", "factsIndex": "gpu-facts"}),
			func() time.Time { return o.End })
		t.Cleanup(d.Dispose)
		return d, func() error {
			return plugin.Publish(t.Context(), d, publish.Options{Pool: "CHTC"}, func(p publish.Part) {
				t.Logf("seed %d: %d written, %d removed, warnings %v", seed, p.Documents, p.Removed, p.Warnings)
			})
		}
	}
	_, one := pool(1)
	_, other := pool(2)
	require.NoError(t, one())
	before := len(m.docs)
	err := other()
	require.Error(t, err, "%d documents before, %d now: those of the first pool are gone", before, len(m.docs))
}

// The fleet's answers of odd pools are those of their own data sources: hourly collectors, many gaps, odd zones, and
// one whose clock is changed by half an hour, after which its hours begin at other minutes of UTC.
func TestOddPoolsInAFleet(t *testing.T) {
	autumn := time.Date(2025, 10, 31, 0, 0, 0, 0, time.UTC)
	for i, odd := range []struct {
		zone    string
		begin   time.Time
		cadence time.Duration
		slices  int
		missed  float64
	}{{"UTC", autumn, time.Hour, 60, 0.1}, {"UTC", autumn, time.Hour, 0, 0.3},
		{"Asia/Kathmandu", autumn, 20 * time.Minute, 15, 0.3}, {"America/St_Johns", autumn, 15 * time.Minute, 30, 0.3},
		{"America/Chicago", autumn, 30 * time.Minute, 60, 0.2},
		{"Australia/Lord_Howe", time.Date(2025, 10, 3, 0, 0, 0, 0, time.UTC), 15 * time.Minute, 15, 0.02},
		{"Australia/Lord_Howe", time.Date(2025, 4, 4, 0, 0, 0, 0, time.UTC), 15 * time.Minute, 15, 0.02}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			_, url := startMemoryES(t)
			o := samplepool.Default()
			o.Seed, o.Machines, o.GPUs, o.Timezone, o.Cadence = uint64(50+i), 6, 20, odd.zone, odd.cadence
			o.Start, o.End = odd.begin, odd.begin.Add(79*time.Hour+20*time.Minute)
			o.MissedSnapshots, o.LateSnapshots, o.DoubledSnapshots, o.Outages, o.MissingMachines = odd.missed, 0.2,
				0.05, 30, 0.02
			if odd.begin != autumn { // no window in an outage, or before the data, where job ads alone know of runs
				o.Start, o.Outages = o.Start.AddDate(0, 0, -1), 0
			}
			m := member{name: "pool", dir: poolOf(t, o), zone: odd.zone, begin: odd.begin}
			m.source = plugin.Open(settings(t, url, map[string]any{"snapshotDir": m.dir, "timezone": odd.zone,
				"sliceMinutes": odd.slices,
				"factsIndex":   "gpu-facts", "jobs": "sqlite"}), func() time.Time { return o.End })
			t.Cleanup(m.source.Dispose)
			require.NoError(t, plugin.Publish(t.Context(), m.source, publish.Options{Pool: m.name}, func(publish.Part) {}))
			testPool(t, url, "gpu-facts", m, o.End)
		})
	}
}

// seed puts a pool's checkpoint and the facts of its newest hour.
func (m *memoryES) seed(t *testing.T, name string, since, through time.Time, hour map[string]any, users int) {
	t.Helper()
	put := func(d map[string]any) {
		text, err := json.Marshal(d)
		require.NoError(t, err)
		m.put("gpu-facts", fmt.Sprint(len(m.docs)), text)
	}
	put(map[string]any{"pool": name, "kind": facts.KindPool, "version": facts.Version, "zone": "UTC", "sliceMinutes": 15,
		"since": since.UnixMilli(), "completeThrough": since.UnixMilli(), "through": through.UnixMilli()})
	at := through.Add(-time.Hour).UnixMilli()
	put(with(hour, map[string]any{"pool": name, "kind": facts.KindHour, "hour": at}))
	for n := range users {
		put(map[string]any{"pool": name, "kind": facts.KindUsers, "hour": at, "user": fmt.Sprint("u", n), "held": 1,
			"measured": 1, "busy": 1, "begun": 1, "claimed": 1, "backfillHours": 1, "backfillBegun": 1})
	}
}

// An hour that is covered but has no slice, because the hourly collector was late, has the runs that went through it.
func TestHourWithoutSlices(t *testing.T) {
	m, url := startMemoryES(t)
	through := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	m.seed(t, "A", through.AddDate(0, 0, -1), through, map[string]any{"slices": 0, "coveredHours": 1, "snapshots": 0}, 1)
	m.seed(t, "B", through.AddDate(0, 0, -1), through, map[string]any{"slices": 4, "coveredHours": 1, "snapshots": 4}, 1)
	fleet := openFleet(t, url, "gpu-facts", through)
	w := pool.Window{From: through.Add(-time.Hour).UnixMicro(), To: through.UnixMicro() - 1}
	for text, want := range map[string]int{ // rows by pool, and the total where there is one
		`{"queryType": "utilization", "view": "summary", "groupBy": ["pool"], "metrics": ["heldGpuHours"]}`:               2,
		`{"queryType": "evictions", "groupBy": ["pool"], "metrics": ["gpuHours"]}`:                                        2,
		`{"queryType": "userHours", "groupBy": ["pool"], "metrics": ["gpuHours"]}`:                                        1,
		`{"queryType": "utilization", "view": "timeseries", "groupBy": ["pool"], "bucket": "1h", "metrics": ["busy"]}`:    1,
		`{"queryType": "evictions", "view": "timeseries", "groupBy": ["pool"], "bucket": "1h", "metrics": ["evictions"]}`: 1,
		`{"queryType": "userHours", "view": "timeseries", "groupBy": ["pool"], "bucket": "1h"}`:                           1,
	} {
		answer := ask(t, fleet, parse(t, text), w)
		require.NoError(t, answer.Error, text)
		require.Len(t, labelled(answer.Frames), want, text)
	}
}

// Groups over buckets are bounded as in a pool's own data source.
func TestFleetAnswersAreBounded(t *testing.T) {
	m, url := startMemoryES(t)
	through := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	since := through.AddDate(-3, 0, 0)
	m.seed(t, "A", since, through, map[string]any{"slices": 4, "coveredHours": 1, "snapshots": 4}, 300)
	fleet := openFleet(t, url, "gpu-facts", through)
	for _, kind := range []string{"utilization", "evictions"} {
		answer := ask(t, fleet, parse(t, `{"queryType": "`+kind+`", "view": "timeseries", "groupBy": ["user"], "bucket": "1h"}`),
			pool.Window{From: since.UnixMicro(), To: through.UnixMicro()})
		require.ErrorContains(t, answer.Error, "buckets are too many", kind)
		require.Equal(t, backend.StatusBadRequest, answer.Status)
	}
}

// What is published hour by hour while a pool grows, and rows of it are edited, is what is published at once in the
// end. (Edits beside appended rows are seen within an hour, or at once after Save & test.)
func TestPublishingWhileGrowing(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 9))
		o := samplepool.Default()
		o.Seed, o.Machines, o.GPUs, o.Timezone = 70+seed, 6, 20, "America/Chicago"
		o.Start, o.End = time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 4, 7, 20, 0, 0, time.UTC)
		p, err := samplepool.New(o)
		require.NoError(t, err)
		g := runstest.Grow(t, p)
		var now time.Time
		open := func(url string) *plugin.Datasource {
			d := plugin.Open(settings(t, url, map[string]any{"snapshotDir": g.Dir, "timezone": "America/Chicago",
				"factsIndex": "gpu-facts"}), func() time.Time { return now })
			t.Cleanup(d.Dispose)
			return d
		}
		publishTo := func(d *plugin.Datasource) {
			require.NoError(t, plugin.Publish(t.Context(), d, publish.Options{Pool: "p"}, func(publish.Part) {}))
		}
		grown, url := startMemoryES(t)
		long := open(url)
		now = g.Add(30)
		for range 14 {
			if random.IntN(5) == 0 {
				g.Edit(random)
				_, err := long.CheckHealth(t.Context(), &backend.CheckHealthRequest{
					PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
				require.NoError(t, err)
			}
			publishTo(long)
			now = g.Add(1 + random.IntN(40))
		}
		publishTo(long)
		fresh, freshURL := startMemoryES(t)
		publishTo(open(freshURL))
		require.NotEmpty(t, fresh.text)
		for key, text := range fresh.text {
			if fresh.docs[key]["kind"] != facts.KindPool {
				require.Equal(t, string(text), string(grown.text[key]), "seed %d: %s", seed, key)
			}
		}
		for key, text := range grown.text {
			require.Contains(t, fresh.text, key, "seed %d: left over: %s", seed, text)
		}
	}
}

// A publisher that was overtaken while it wrote repeats the hours that both wrote, even if no later run compares them.
func TestSlowerPublisherRepeats(t *testing.T) {
	o := samplepool.Default()
	o.Seed, o.Machines, o.GPUs, o.Timezone = 5, 6, 20, "UTC"
	o.Start = time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC)
	o.End = o.Start.AddDate(0, 0, 11)
	dir := poolOf(t, o)
	publishTo := func(url, jobs string) error {
		d := plugin.Open(settings(t, url, map[string]any{"snapshotDir": dir, "timezone": "UTC", "factsIndex": "gpu-facts",
			"jobs": jobs}), func() time.Time { return o.End })
		t.Cleanup(d.Dispose)
		return plugin.Publish(t.Context(), d, publish.Options{Pool: "p"}, func(publish.Part) {})
	}
	withoutAds := func(m *memoryES) (n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, d := range m.docs {
			if _, ok := d["withoutAds"]; ok {
				n++
			}
		}
		return n
	}
	alone, url := startMemoryES(t)
	require.NoError(t, publishTo(url, "none"))

	both, url := startMemoryES(t)
	writes, overtaken := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "_bulk") {
			once.Do(func() {
				close(writes)
				<-overtaken
			})
		}
		both.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	ended := make(chan error, 1)
	go func() { ended <- publishTo(slow.URL, "none") }()
	<-writes
	require.NoError(t, publishTo(url, "sqlite"))
	require.Zero(t, withoutAds(both))
	close(overtaken)
	require.NoError(t, <-ended)
	require.Equal(t, withoutAds(alone), withoutAds(both), "all hours are those of the publisher whose checkpoint it is")
}
