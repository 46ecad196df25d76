package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/fleet/facts"
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

// Viewers, and requests without a user, see only whether the data source works, not paths or the operator's allow lists.
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
	p.publishedThrough(through)
	p.publishedThrough(through.AddDate(0, 0, -7))
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
