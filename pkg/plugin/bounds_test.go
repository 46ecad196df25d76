package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// takeSlots takes all slots, until free is called.
func takeSlots(t *testing.T) (free func()) {
	t.Helper()
	end, taken := make(chan struct{}), make(chan struct{}, computingLimit)
	for range computingLimit {
		go func() {
			_ = computing.Compute(t.Context(), func(context.Context) error {
				taken <- struct{}{}
				<-end
				return nil
			})
		}()
	}
	for range computingLimit {
		<-taken
	}
	return func() { close(end) }
}

// Values are bounded as queries are.
func TestValuesTakeASlot(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	free := takeSlots(t)
	got := make(chan int, 1)
	go func() {
		status, _, _ := getAs(t, d, "Viewer", "values/user", nil)
		got <- status
	}()
	require.Never(t, func() bool { return len(got) > 0 }, 5*testPause, testPause)
	free()
	require.Equal(t, http.StatusOK, <-got)
}

// A data source whose Elasticsearch hangs keeps no other one waiting: what waits holds no slot.
func TestOneHangingDataSourceLeavesTheOthers(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	hanging, asked := openHanging(t, o, dir)
	hanging.answers.lifetime = time.Hour // however long it takes to ask them all
	other := open(t, o.End, map[string]any{"snapshotDir": dir})
	ask := func(ctx context.Context, d *Datasource, model string) error {
		r, err := d.QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A", model)}})
		require.NoError(t, err)
		return r.Responses["A"].Error
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 2*computingLimit)
	for n := range 2 * computingLimit {
		go func() {
			ended <- ask(ctx, hanging, fmt.Sprintf(`{"queryType": "evictions", "view": "runs", "limit": %d}`, 10+n))
		}()
	}
	<-asked
	require.Eventually(t, func() bool {
		hanging.answers.mu.Lock()
		defer hanging.answers.mu.Unlock()
		return len(hanging.answers.computations) == int(2*computingLimit)
	}, testPatience, testPause)
	for n := range 20 { // some of those that hang begin to wait in the meantime
		within, done := context.WithTimeout(t.Context(), testPatience)
		require.NoError(t, ask(within, other, fmt.Sprintf(`{"queryType": "allocation", "view": "summary", "limit": %d}`, 10+n)))
		done()
	}
	require.Empty(t, ended, "they wait still")
	cancel()
	for range 2 * computingLimit {
		<-ended
	}
}

// The answers to one request obey MaxCells together, in the order of the request: what no longer fits is an error, and
// what fits after it is answered.
func TestAnswersOfARequestTogether(t *testing.T) {
	answer := func(rows int) *backend.DataResponse {
		return &backend.DataResponse{Frames: data.Frames{data.NewFrame("", data.NewField("a", nil, make([]bool, rows)))}}
	}
	cells := 0
	admitted := func(rows int) error {
		a := answer(rows)
		admit(a, &cells)
		return a.Error
	}
	require.NoError(t, admitted(query.MaxCells-10))
	require.ErrorContains(t, admitted(11), "this answer has 11 numbers, those before it in the request 4,999,990")
	require.NoError(t, admitted(10))
	require.Error(t, admitted(1))
}

// Viewers, and requests without a user, see only whether the data source works, not paths or the operator's allow
// lists.
func TestHealthForViewers(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", dir+",/srv/secret-project")
	t.Setenv("GF_PLUGIN_ALLOWED_BUCKETS", "https://s3.internal.example.org/secret-bucket")
	says := func(d *Datasource, role string) string {
		r, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: someone(role)})
		require.NoError(t, err)
		return r.Message + string(r.JSONDetails)
	}
	works := open(t, o.End, map[string]any{"snapshotDir": dir})
	require.Equal(t, "The data source works.", says(works, "Viewer"))
	require.Equal(t, "The data source works.", says(works, ""))
	require.Contains(t, says(works, "Editor"), dir)
	for _, place := range []map[string]any{{"snapshotDir": "/elsewhere"}, {"snapshotBucket": "s3://mine"}} {
		s := settingsOf(t, place)
		s.DecryptedSecureJSONData = map[string]string{secretAccessKey: "a", secretSecretKey: "b"}
		made, err := New(t.Context(), s)
		require.NoError(t, err)
		d := made.(*Datasource)
		defer d.Dispose()
		require.NotContains(t, says(d, "Viewer"), "secret")
		require.Contains(t, says(d, "Admin"), "secret-bucket")
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{PluginContext: someone("Viewer"),
			Queries: []backend.DataQuery{queryOf(t, o, "A", `{"queryType": "allocation"}`)}})
		require.NoError(t, err)
		require.ErrorContains(t, r.Responses["A"].Error, "that this server allows")
		require.NotContains(t, r.Responses["A"].Error.Error(), "secret")
	}
}

// Whatever fails in a publishing, the next one is tried, and the health check says so.
func TestPublishingGoesOnAfterAPanic(t *testing.T) {
	o := small()
	d := Open(settingsOf(t, map[string]any{"snapshotDir": t.TempDir(), "publishTo": map[string]any{"pool": "A",
		"index": "gpu-facts"}}), func() time.Time { return o.End })
	t.Cleanup(d.Dispose)
	d.stores.open = func(context.Context) (*opened, error) { panic("a bug") }
	ctx, cancel := context.WithCancel(t.Context())
	p, ended := &publisher{}, make(chan error, 1)
	go func() { ended <- p.run(ctx, d) }()
	require.Eventually(t, func() bool {
		return strings.Contains(p.finding(d.parsed.PublishTo).Text, "a bug")
	}, testPatience, testPause)
	require.Equal(t, check.Warning, p.finding(d.parsed.PublishTo).Severity)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Correcting earlier hours does not move the end of the published range back.
func TestPublishedThroughIsTheEnd(t *testing.T) {
	p := &publisher{}
	through := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	p.published(publish.Part{To: through})
	p.published(publish.Part{To: through.AddDate(0, 0, -7)})
	require.Contains(t, p.finding(PublishTo{Pool: "A", Index: "x"}).Text, through.Format("2006-01-02 15:04"))
}

// Series that are renamed in one request keep their names in the answers that others are given.
func TestNamesOfOneRequestAreItsOwn(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	d.answers.maxBytes, d.answers.lifetime = 1<<30, time.Hour
	survival := func(refID, metrics string) backend.DataQuery {
		return queryOf(t, o, refID, `{"queryType": "backfillAvailability", "view": "survival", "groupBy": [], "metrics": [`+
			metrics+`]}`)
	}
	a, b := survival("A", `"survival", "low", "high"`), survival("B", `"low", "atRisk"`)
	bands := func(queries ...backend.DataQuery) (all []string) {
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: queries,
			Headers: map[string]string{"http_X-Datasource-Uid": "x"}})
		require.NoError(t, err)
		require.NoError(t, r.Responses["A"].Error)
		for _, frame := range r.Responses["A"].Frames {
			for _, field := range frame.Fields {
				if field.Config != nil && field.Config.Custom["fillBelowTo"] != nil {
					all = append(all, field.Config.Custom["fillBelowTo"].(string))
				}
			}
		}
		return all
	}
	before := bands(a)
	require.NotEmpty(t, before)
	bands(a, b) // another user's panel
	require.Equal(t, before, bands(a))
}

// The order of a fleet's pseudonyms tells nothing of the names.
func TestFleetPseudonymsAreInTheirOwnOrder(t *testing.T) {
	through := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	hits, groups := []any{}, []any{}
	point := facts.Checkpoint{Pool: "A", Kind: facts.KindPool, Version: facts.Version, Zone: "UTC", SliceMinutes: 15,
		Since: through.AddDate(0, 0, -10).UnixMilli(), CompleteThrough: through.AddDate(0, 0, -1).UnixMilli(),
		Through: through.UnixMilli()}
	hits = append(hits, map[string]any{"_index": "i", "_id": "A", "_source": point})
	for i := range 12 {
		groups = append(groups, map[string]any{"key": map[string]any{"pool": "A",
			"user": fmt.Sprintf("%c@example.org", 'a'+i)}, "slices": map[string]any{"value": 4},
			"coveredHours": map[string]any{"value": 1}, "snapshots": map[string]any{"value": 4},
			"polledHours": map[string]any{"value": 0}})
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		answer := map[string]any{"id": "p", "_shards": map[string]any{"total": 1, "failed": 0},
			"hits": map[string]any{"hits": []any{}}}
		var body struct{ Aggs any }
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch {
		case !strings.HasSuffix(r.URL.Path, "/_search"):
		case body.Aggs == nil:
			answer["hits"] = map[string]any{"hits": hits}
		default:
			answer["aggregations"] = map[string]any{"groups": map[string]any{"buckets": groups}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer server.Close()
	s := settingsOf(t, map[string]any{"mode": "fleet", "factsIndex": "gpu-facts", "userNames": "pseudonyms"})
	s.URL, s.DecryptedSecureJSONData = server.URL, map[string]string{pseudonymSecret: "correct horse battery"}
	d := Open(s, func() time.Time { return through })
	defer d.Dispose()
	status, _, body := getAs(t, d, "Viewer", "values/user", nil)
	require.Equal(t, http.StatusOK, status, "%s", body)
	var options []option
	require.NoError(t, json.Unmarshal(body, &options))
	require.Len(t, options, 12)
	byText := func(a, b option) int { return strings.Compare(a.Text, b.Text) }
	require.True(t, slices.IsSortedFunc(options, byText), options)
}

// A request that is not a query ends with its context although a file system hangs.
func TestLookupsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang, ended := make(chan struct{}), make(chan struct{})
	_, err := lookUp(ctx, func(context.Context) (int, error) {
		defer close(ended)
		cancel()
		<-hang
		return 1, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	close(hang)
	<-ended // its slot is free again for other tests
}

// waiting waits until n callers wait for the key.
func waiting(t *testing.T, f *answerCache, key string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.computations[key] != nil && f.computations[key].waiting == n
	}, testPatience, testPause)
}

func TestEqualQueriesAreComputedOnce(t *testing.T) {
	f := answerCache{lifetime: time.Hour}
	var computed atomic.Int32
	release := make(chan struct{})
	answers := make([]data.Frames, 10)
	var callers sync.WaitGroup
	for i := range answers {
		callers.Add(1)
		go func() {
			defer callers.Done()
			frames, err := f.get(context.Background(), "same", func(context.Context) (data.Frames, error) {
				computed.Add(1)
				<-release
				return data.Frames{data.NewFrame("answer")}, nil
			})
			if err == nil {
				answers[i] = copies(frames)
				answers[i][0].RefID = string(rune('A' + i)) // as the SDK does
			}
		}()
	}
	waiting(t, &f, "same", len(answers))
	close(release)
	callers.Wait()
	require.EqualValues(t, 1, computed.Load())
	for i, frames := range answers {
		require.Len(t, frames, 1)
		require.Equal(t, string(rune('A'+i)), frames[0].RefID, "each caller's frames are its own")
	}
	require.Empty(t, f.computations)
}

func TestOneCallersCancelLeavesTheOthers(t *testing.T) {
	f := answerCache{lifetime: time.Hour}
	release, first := make(chan struct{}), make(chan error, 1)
	compute := func(ctx context.Context) (data.Frames, error) {
		select {
		case <-release:
			return data.Frames{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := f.get(ctx, "same", compute)
		first <- err
	}()
	waiting(t, &f, "same", 1)
	second := make(chan error, 1)
	go func() {
		_, err := f.get(context.Background(), "same", compute)
		second <- err
	}()
	waiting(t, &f, "same", 2)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	waiting(t, &f, "same", 1)
	close(release)
	require.NoError(t, <-second)
}

func TestTheLastCallersCancelStopsTheWork(t *testing.T) {
	f := answerCache{lifetime: time.Hour}
	stopped, answered := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := f.get(ctx, "same", func(ctx context.Context) (data.Frames, error) {
			<-ctx.Done()
			stopped <- ctx.Err()
			return nil, ctx.Err()
		})
		answered <- err
	}()
	waiting(t, &f, "same", 1)
	cancel()
	require.ErrorIs(t, <-answered, context.Canceled)
	require.ErrorIs(t, <-stopped, context.Canceled)
	// a later call starts a new computation
	_, err := f.get(context.Background(), "same", func(ctx context.Context) (data.Frames, error) { return nil, ctx.Err() })
	require.NoError(t, err)
}

func TestPanicsAndErrorsReachEveryCaller(t *testing.T) {
	f := answerCache{lifetime: time.Hour}
	_, err := f.get(context.Background(), "a", func(context.Context) (data.Frames, error) { panic("boom") })
	require.ErrorContains(t, err, "bug of the plugin: boom")
	want := errors.New("no")
	_, err = f.get(context.Background(), "b", func(context.Context) (data.Frames, error) { return nil, want })
	require.ErrorIs(t, err, want)
	require.Empty(t, f.computations)
}

// A computation has the deadline of the caller that waits the longest.
func TestTheLongestDeadlineIsPassedOn(t *testing.T) {
	f := answerCache{lifetime: time.Hour}
	release := make(chan struct{})
	contexts := make(chan context.Context, 1)
	compute := func(ctx context.Context) (data.Frames, error) {
		contexts <- ctx
		<-release
		return nil, nil
	}
	at := time.Now().Add(time.Hour)
	var callers sync.WaitGroup
	ask := func(ctx context.Context, n int) {
		callers.Go(func() { _, _ = f.get(ctx, "same", compute) })
		waiting(t, &f, "same", n)
	}
	until := func(deadline time.Time) context.Context {
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		t.Cleanup(cancel)
		return ctx
	}
	ask(until(at), 1)
	own := <-contexts
	deadline, ok := own.Deadline()
	require.True(t, ok)
	require.Equal(t, at, deadline)
	ask(until(at.Add(-time.Minute)), 2)
	deadline, _ = own.Deadline()
	require.Equal(t, at, deadline, "somebody waits longer")
	ask(until(at.Add(time.Minute)), 3)
	deadline, _ = own.Deadline()
	require.Equal(t, at.Add(time.Minute), deadline)
	ask(t.Context(), 4)
	_, ok = own.Deadline()
	require.False(t, ok, "somebody waits for ever")
	ask(until(at), 5)
	_, ok = own.Deadline()
	require.False(t, ok)
	close(release)
	callers.Wait()
}

// openHanging opens a data source whose Elasticsearch never answers; asked receives a value per request.
func openHanging(t *testing.T, o samplepool.Options, dir string) (d *Datasource, asked <-chan struct{}) {
	t.Helper()
	stop, requests := make(chan struct{}), make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	s := settingsOf(t, map[string]any{"snapshotDir": dir, "jobs": "elasticsearch", "jobsIndex": "htcondor"})
	s.URL = server.URL
	d = Open(s, func() time.Time { return o.End })
	t.Cleanup(func() {
		d.Dispose()
		close(stop)
		server.Close()
	})
	return d, requests
}

// A job source that does not answer is given up in time to answer from snapshots.
func TestHangingElasticsearch(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d, _ := openHanging(t, o, dir)
	warm, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A",
		`{"queryType": "allocation"}`)}})
	require.NoError(t, err)
	require.NoError(t, warm.Responses["A"].Error)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	var queries []backend.DataQuery
	for refID, model := range map[string]string{
		"A": `{"queryType": "evictions", "view": "summary"}`, "B": `{"queryType": "backfillAvailability"}`,
		"C": `{"queryType": "evictions", "view": "runs"}`,
	} {
		queries = append(queries, queryOf(t, o, refID, model))
	}
	r, err := d.QueryData(ctx, &backend.QueryDataRequest{Queries: queries})
	require.NoError(t, err)
	for refID, answer := range r.Responses {
		require.NoError(t, answer.Error, refID)
		require.True(t, slices.ContainsFunc(answer.Frames[0].Meta.Notices, func(n data.Notice) bool {
			return strings.Contains(n.Text, "job ads could not be read")
		}), refID)
	}
}

func TestAnswersLiveForAMoment(t *testing.T) {
	frames := data.Frames{data.NewFrame("a", data.NewField("x", nil, make([]float64, 100)))}
	computed := 0
	ask := func(c *answerCache, key string) {
		got, err := c.get(t.Context(), key, func(context.Context) (data.Frames, error) { computed++; return frames, nil })
		require.NoError(t, err)
		require.Equal(t, frames, got)
	}
	c := &answerCache{maxBytes: 10_000, lifetime: time.Hour}
	ask(c, "one")
	ask(c, "one")
	require.Equal(t, 1, computed)
	ask(c, "two")
	require.Equal(t, 2, computed)

	c = &answerCache{maxBytes: 10_000, lifetime: 10 * time.Millisecond}
	for i := range 100 {
		ask(c, string(rune('a'+i)))
		c.mu.Lock()
		require.LessOrEqual(t, c.bytes, c.maxBytes)
		c.mu.Unlock()
	}
	require.Eventually(t, func() bool { // they expire even without further calls
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.computations) == 0 && c.bytes == 0
	}, testPatience, testPause)

	c, computed = &answerCache{lifetime: time.Hour}, 0
	ask(c, "one")
	ask(c, "one")
	require.Equal(t, 2, computed, "without room only computations under way are shared")
}

// Who asks longer than an answer's life after its computation began is answered from data that were read later.
func TestAnOldComputationIsNotJoined(t *testing.T) {
	c := &answerCache{lifetime: testPause}
	began, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		_, err := c.get(t.Context(), "same", func(context.Context) (data.Frames, error) {
			close(began)
			<-release
			return data.Frames{data.NewFrame("before")}, nil
		})
		first <- err
	}()
	<-began
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.computations) == 0
	}, testPatience, testPause)
	frames, err := c.get(t.Context(), "same", func(context.Context) (data.Frames, error) {
		return data.Frames{data.NewFrame("after")}, nil
	})
	require.NoError(t, err)
	require.Equal(t, "after", frames[0].Name)
	close(release)
	require.NoError(t, <-first)
}

// Equal questions share one answer. Every field of a request is part of the question, so questions that differ in one
// have separate answers.
func TestAnswersAreOfEqualQuestions(t *testing.T) {
	settings, err := json.Marshal(map[string]any{"snapshotDir": golden.Pool(t, "pool-b"), "timezone": "America/Chicago"})
	require.NoError(t, err)
	d := Open(backend.DataSourceInstanceSettings{JSONData: settings}, time.Now)
	defer d.Dispose()
	d.answers.maxBytes, d.answers.lifetime = 1<<20, time.Hour
	m, err := query.Parse([]byte(`{"queryType": "allocation", "view": "summary"}`))
	require.NoError(t, err)
	asked := query.Request{Model: m, Window: golden.Window(t, "2025-11-01T03:00:00Z", "2025-11-01T09:30:00Z")}
	n := func() int {
		d.answers.mu.Lock()
		defer d.answers.mu.Unlock()
		return len(d.answers.computations)
	}
	answer := func(r query.Request) *data.Frame {
		frames, err := d.answer(context.Background(), query.Naming{}, r)
		require.NoError(t, err)
		return frames[0]
	}
	first := answer(asked)
	require.Equal(t, 1, n())
	same := asked
	same.RefID, same.Now = "B", asked.Now+1
	require.Same(t, first.Fields[0], answer(same).Fields[0])
	moved, elsewhere := asked, asked
	moved.Window.To += pool.Second
	elsewhere.OnDashboard = true
	for _, other := range []query.Request{moved, elsewhere} {
		require.NotSame(t, first.Fields[0], answer(other).Fields[0])
	}
	wrong := asked
	wrong.Window.To = wrong.Window.From - 1
	_, err = d.answer(context.Background(), query.Naming{}, wrong)
	require.Error(t, err)
	require.Equal(t, 3, n(), "errors are not kept")
}
