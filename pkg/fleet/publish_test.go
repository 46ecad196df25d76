package fleet_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// send sends something to Elasticsearch.
func send(t *testing.T, method, url, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Less(t, answer.StatusCode, 300, "%s %s", method, url)
}

// single makes a pool of its own, and opens data sources of it.
func single(t *testing.T, alias string) (open func(url, jobs string) member, now time.Time) {
	t.Helper()
	o := made()[0]
	dir := poolOf(t, o)
	return func(url, jobs string) member {
		source := plugin.Open(settings(t, url, map[string]any{"snapshotDir": dir, "timezone": o.Timezone,
			"factsIndex": alias, "jobs": jobs}), func() time.Time { return o.End })
		t.Cleanup(source.Dispose)
		return member{name: "mine", source: source, dir: dir, zone: o.Timezone}
	}, o.End
}

// once publishes what a pool's facts lack.
func once(t *testing.T, m member, since time.Time) (all publish.Part, err error) {
	t.Helper()
	o := publish.Options{Pool: m.name, Since: since, Shards: 2}
	err = plugin.Publish(t.Context(), m.source, o, func(p publish.Part) {
		all.Documents, all.Removed = all.Documents+p.Documents, all.Removed+p.Removed
	})
	return all, err
}

// Publishing each hour writes only documents that have changed; missing and half-written documents are written again.
func TestPublishingAgainIsCheap(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-hourly-%d", time.Now().UnixNano()) // the server may be one that others use
	open, now := single(t, alias)
	first, err := once(t, open(server, "none"), time.Time{})
	require.NoError(t, err)
	require.Positive(t, first.Documents)

	again, err := once(t, open(server, "none"), time.Time{})
	require.NoError(t, err)
	require.Zero(t, again, "nothing is written")
	whole, err := once(t, open(server, "none"), time.Date(2025, 10, 1, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Zero(t, whole, "nor if all is compared")

	target, err := url.Parse(server)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/_bulk") {
			proxy.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(httptest.NewRecorder(), r) // it is written, but the writer does not learn of it
		http.Error(w, "no answer", http.StatusInternalServerError)
	}))
	t.Cleanup(broken.Close)
	_, err = once(t, open(broken.URL, "sqlite"), time.Time{}) // job ads come late
	require.ErrorContains(t, err, "writing facts")
	_, err = once(t, open(server, "none"), time.Time{}) // and are gone again: the facts of before
	require.NoError(t, err)
	testPool(t, server, alias, open(server, "none"), now)
	late, err := once(t, open(server, "sqlite"), time.Time{})
	require.NoError(t, err)
	require.Positive(t, late.Documents)
	require.Positive(t, late.Removed)
	testPool(t, server, alias, open(server, "sqlite"), now)

	send(t, http.MethodDelete, server+"/"+alias+"-2025-10", "")
	gone, err := once(t, open(server, "sqlite"), time.Time{})
	require.NoError(t, err)
	require.Positive(t, gone.Documents)
	require.Less(t, gone.Documents, first.Documents, "November is there")
	testPool(t, server, alias, open(server, "sqlite"), now)
}

// A job source that does not answer is an error: facts without it would be others, and none are written.
func TestPublishingNeedsTheJobSource(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-jobs-%d", time.Now().UnixNano())
	open, now := single(t, alias)
	m := open(server, "sqlite")
	require.NoError(t, os.WriteFile(filepath.Join(m.dir, "jobs.db"), []byte(strings.Repeat("no database ", 1000)), 0o600))
	all, err := once(t, m, time.Time{})
	require.ErrorContains(t, err, "jobs.db")
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.Zero(t, all)
	fleet := openFleet(t, server, alias, now)
	answer := ask(t, fleet, parse(t, `{"queryType": "allocation", "view": "summary"}`), windows(t, member{zone: "UTC"})[0])
	require.NoError(t, answer.Error)
	require.Contains(t, answer.Frames[0].Meta.Notices[0].Text, "no pool has published facts")
}

// Facts of another version are neither mixed with new ones nor answered from; the errors say what to do.
func TestFactsOfAnOlderVersion(t *testing.T) {
	server := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-old-%d", time.Now().UnixNano())
	open, now := single(t, alias)
	_, err := once(t, open(server, "none"), time.Time{})
	require.NoError(t, err)
	point := facts.Checkpoint{Pool: "old"}
	send(t, http.MethodPut, server+"/"+alias+"-pools/_doc/"+point.ID()+"?refresh=true",
		`{"pool": "old", "kind": "pool", "version": 1, "zone": "America/Chicago", "sliceMinutes": 15,
			"since": 1761800400000, "completeThrough": 1761800400000, "through": 1762000000000}`)
	old := open(server, "none")
	old.name = "old"
	_, err = once(t, old, time.Time{})
	require.ErrorContains(t, err, "of version 1")
	require.ErrorContains(t, err, "--since 2025-10-30T05:00:00Z")
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	fleet := openFleet(t, server, alias, now)
	answer := ask(t, fleet, parse(t, `{"queryType": "allocation", "view": "summary"}`), windows(t, member{zone: "UTC"})[0])
	require.ErrorContains(t, answer.Error, "the facts of pool old are of version 1")
	require.ErrorContains(t, answer.Error, "publish again")
}

// A data source that is disposed of stops publishing, also while Elasticsearch does not answer.
func TestDisposeEndsThePublisher(t *testing.T) {
	asked, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client has gone
		asked <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}))
	t.Cleanup(hanging.Close)
	m, _ := single(t, "facts-disposed")
	opened, err := plugin.New(t.Context(), settings(t, hanging.URL, map[string]any{"snapshotDir": m("", "none").dir,
		"timezone": made()[0].Timezone, "factsIndex": "facts-disposed", "publishTo": map[string]any{"pool": "mine"}}))
	require.NoError(t, err)
	<-asked
	opened.(*plugin.Datasource).Dispose()
	<-ended
	require.Empty(t, asked, "nothing is asked any more")
}

// A data source with publishTo publishes by itself, until it is disposed of; the health check says how far it is, and
// why it fails.
func TestPublishTo(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-to-%d", time.Now().UnixNano()) // the server may be one that others use
	o := made()[0]
	dir := poolOf(t, o)
	open := func(url string) *plugin.Datasource {
		made, err := plugin.New(t.Context(), settings(t, url, map[string]any{"snapshotDir": dir, "timezone": o.Timezone,
			"factsIndex": alias, "publishTo": map[string]any{"pool": "mine"}}))
		require.NoError(t, err)
		source := made.(*plugin.Datasource)
		t.Cleanup(source.Dispose)
		return source
	}
	says := func(d *plugin.Datasource, text string) {
		require.Eventually(t, func() bool {
			health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
				PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
			return err == nil && strings.Contains(health.Message, text)
		}, time.Minute, 20*time.Millisecond, text)
	}
	says(open(url), "Facts of pool mine under "+alias+": published through 2025-11-03 07:00 UTC")
	says(open("http://127.0.0.1:1"), "publishing failed at")

	fleet := plugin.Open(settings(t, url, map[string]any{"mode": "fleet", "factsIndex": alias}), time.Now)
	t.Cleanup(fleet.Dispose)
	answer := ask(t, fleet, parse(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["pool"]}`),
		pool.Window{From: o.Start.UnixMicro(), To: o.End.UnixMicro()})
	require.NoError(t, answer.Error)
	require.Equal(t, "mine", labelled(answer.Frames)[0]["pool"])
}

func TestPublishToSettings(t *testing.T) {
	for text, want := range map[string]string{
		`{"snapshotDir": "/x", "publishTo": {"index": "gpu-facts"}}`:               "has an index but no pool",
		`{"snapshotDir": "/x", "publishTo": {"pool": "a"}}`:                        "publishTo: factsIndex is not set",
		`{"snapshotDir": "/x", "publishTo": {"pool": "a", "index": "Gpu"}}`:        "cannot be the name of an alias",
		`{"mode": "fleet", "factsIndex": "gpu-facts", "publishTo": {"pool": "a"}}`: "publishTo is set",
	} {
		_, err := plugin.ParseSettings([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	s, err := plugin.ParseSettings([]byte(`{"snapshotDir": "/x", "factsIndex": "f", "publishTo": {"pool": " a "}}`))
	require.NoError(t, err)
	require.Equal(t, plugin.PublishTo{Pool: "a", Index: "f"}, s.PublishTo)
}

// The project of a job is that of the fact's UTC day: over several days the fleet's hours are the sum of the answers
// for each day alone, also where rows more than a week later tell what was not known on the day.
func TestJobProjectIsOfTheDay(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-projects-%d", time.Now().UnixNano())
	o := samplepool.Default()
	o.Machines, o.Timezone, o.Cadence, o.Polls = 5, "UTC", time.Hour, 2*time.Hour
	o.Start, o.End = time.Date(2025, 10, 3, 0, 0, 0, 0, time.UTC), time.Date(2025, 10, 13, 0, 30, 0, 0, time.UTC)
	m := member{name: "late", dir: poolOf(t, o), zone: "UTC"}
	first := o.Start.AddDate(0, 0, 1)
	keepLateRows(t, filepath.Join(m.dir, "job_pressure_2025-10.db"), first.AddDate(0, 0, 8))
	now := func() time.Time { return o.End }
	m.source = plugin.Open(settings(t, url, map[string]any{"snapshotDir": m.dir, "factsIndex": alias}), now)
	t.Cleanup(m.source.Dispose)
	publishAll(t, []member{m}, time.Time{})
	fleet := plugin.Open(settings(t, url, map[string]any{"mode": "fleet", "factsIndex": alias}), now)
	t.Cleanup(fleet.Dispose)

	q := parse(t, `{"queryType": "userHours", "groupBy": ["jobProject"], "metrics": ["gpuHours"]}`)
	whole := pool.NewWindow(first, o.End.Truncate(24*time.Hour))
	whole.To--
	want := map[string]float64{}
	for from := whole.From; from < whole.To; from += pool.Day {
		add(t, want, ask(t, m.source, q, pool.Window{From: from, To: from + pool.Day - 1}).Frames)
	}
	got, together := map[string]float64{}, map[string]float64{}
	answer := ask(t, fleet, parse(t, `{"queryType": "userHours", "view": "timeseries", "bucket": "1d",
		"groupBy": ["jobProject"]}`), whole)
	require.NoError(t, answer.Error)
	add(t, got, answer.Frames)
	require.Contains(t, golden.Told(answer.Frames), "% not known from the queue files of their days")
	add(t, together, ask(t, m.source, q, whole).Frames)
	require.Len(t, got, len(want))
	for project, hours := range want {
		require.InDelta(t, hours, got[project], 1e-6, project)
	}
	require.Greater(t, got["Unknown"], together["Unknown"]+1, "what becomes known later stays unknown")
}

// keepLateRows removes all rows whose jobs were last seen before a time.
func keepLateRows(t *testing.T, file string, since time.Time) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	_, err = db.Exec("DELETE FROM job_pressure WHERE last_seen < ?", since.Unix())
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// add adds up hours by the project of the job.
func add(t *testing.T, to map[string]float64, frames data.Frames) {
	t.Helper()
	rows := labelled(frames)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		to[row["jobProject"].(string)] += row["gpuHours"].(float64)
	}
}
