package fleet_test

import (
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

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/fleet/publish"
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
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.Write(t.Context(), dir))
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
	fleet := plugin.Open(settings(t, server, map[string]any{"mode": "fleet", "factsIndex": alias}),
		func() time.Time { return now })
	t.Cleanup(fleet.Dispose)
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
			"since": 1761800400000, "completeThrough": 1761800400000, "through": 1762000000000, "publishedAt": 0}`)
	old := open(server, "none")
	old.name = "old"
	_, err = once(t, old, time.Time{})
	require.ErrorContains(t, err, "of version 1")
	require.ErrorContains(t, err, "--since 2025-10-30T05:00:00Z")
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	fleet := plugin.Open(settings(t, server, map[string]any{"mode": "fleet", "factsIndex": alias}),
		func() time.Time { return now })
	t.Cleanup(fleet.Dispose)
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
