package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
)

// queryOf is a query as Grafana sends it, over all of a pool.
func queryOf(t *testing.T, o samplepool.Options, refID, model string) backend.DataQuery {
	t.Helper()
	require.True(t, json.Valid([]byte(model)), model)
	return backend.DataQuery{RefID: refID, JSON: json.RawMessage(model), Interval: time.Minute, MaxDataPoints: 1000,
		TimeRange: backend.TimeRange{From: o.Start, To: o.End}}
}

func TestEachQueryFailsAlone(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	bad := map[string]struct {
		model string
		words []string
	}{
		"noType":   {`{}`, []string{"queryType", "allocation", "userHours", "backfillAvailability", "evictions"}},
		"kind":     {`{"queryType": "weather"}`, []string{"weather", "allocation"}},
		"view":     {`{"queryType": "allocation", "view": "pie"}`, []string{"pie", "summary"}},
		"metric":   {`{"queryType": "allocation", "metrics": ["speed"]}`, []string{"speed", "allocatedPercent"}},
		"grouping": {`{"queryType": "allocation", "groupBy": ["colour"]}`, []string{"colour", "device"}},
		"filter":   {`{"queryType": "allocation", "filter": {"colours": []}}`, []string{"colours", "devices"}},
		"pattern":  {`{"queryType": "allocation", "filter": {"devices": ["/(/"]}}`, []string{"/(/"}},
		"bucket":   {`{"queryType": "allocation", "bucket": "7m"}`, []string{"7m", "15m"}},
		"zone":     {`{"queryType": "allocation", "timezone": "Mars"}`, []string{"Mars"}},
		"variable": {`{"queryType": "allocation", "filter": {"devices": ["$device"]}}`, []string{"$device"}},
		"type":     {`{"queryType": 7}`, []string{"cannot be read"}},
	}
	request := &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "good",
		`{"queryType": "allocation"}`), queryOf(t, o, "also", `{"queryType": "userHours"}`)}}
	for refID, b := range bad {
		request.Queries = append(request.Queries, queryOf(t, o, refID, b.model))
	}
	inverted := queryOf(t, o, "inverted", `{"queryType": "allocation"}`)
	inverted.TimeRange = backend.TimeRange{From: o.End, To: o.Start}
	request.Queries = append(request.Queries, inverted)

	response, err := d.QueryData(context.Background(), request)
	require.NoError(t, err)
	require.Len(t, response.Responses, len(bad)+3)
	for _, refID := range []string{"good", "also"} {
		require.NoError(t, response.Responses[refID].Error)
		require.Equal(t, backend.StatusOK, response.Responses[refID].Status)
		require.NotEmpty(t, response.Responses[refID].Frames)
	}
	bad["inverted"] = struct {
		model string
		words []string
	}{"", []string{"time range"}}
	for refID, b := range bad {
		answer := response.Responses[refID]
		require.Error(t, answer.Error, refID)
		require.Equal(t, backend.StatusBadRequest, answer.Status, refID)
		require.Equal(t, backend.ErrorSourceDownstream, answer.ErrorSource, refID)
		for _, word := range b.words {
			require.ErrorContains(t, answer.Error, word, refID)
		}
	}
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err    error
		status backend.Status
		source backend.ErrorSource
	}{
		{pool.BadQuery("x"), 400, backend.ErrorSourceDownstream},
		{fmt.Errorf("loading: %w", pool.SourceError("x")), 502, backend.ErrorSourceDownstream},
		{fmt.Errorf("loading: %w", context.Canceled), 499, backend.ErrorSourceDownstream},
		{pool.SourceError("x: %w", context.DeadlineExceeded), 504, backend.ErrorSourceDownstream},
		{fmt.Errorf("x"), 500, backend.ErrorSourcePlugin},
	} {
		response := failure(c.err)
		require.Equal(t, c.status, response.Status, c.err)
		require.Equal(t, c.source, response.ErrorSource, c.err)
		require.Equal(t, c.err, response.Error)
	}
}

func TestFromAlert(t *testing.T) {
	for _, c := range []struct {
		headers map[string]string
		alert   bool
	}{
		{nil, false},
		{map[string]string{"FromAlert": "true"}, true},
		{map[string]string{"Fromalert": "true"}, true},
		{map[string]string{"fromalert": "TRUE"}, true},
		{map[string]string{"http_FromAlert": "true"}, true},
		{map[string]string{"FromAlert": "false"}, false},
		{map[string]string{"FromAlert": ""}, false},
		{map[string]string{"X-Rule-Uid": "true"}, false},
	} {
		require.Equal(t, c.alert, isFromAlert(c.headers), "%v", c.headers)
	}
}

// A cancelled query stops its work and frees its place, although its answer was not awaited.
func TestCancelStopsTheWork(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Machines, o.GPUs = 20, 160 })
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan backend.DataResponse, 1)
	go func() {
		response, err := d.QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A",
			`{"queryType": "allocation"}`)}})
		if err != nil {
			t.Error(err)
		}
		answered <- response.Responses["A"]
	}()
	inUse := d.stores.users
	require.Eventually(t, func() bool { return inUse() == 1 }, testPatience, 10*time.Microsecond, "the query works")
	begin := time.Now()
	cancel()
	answer := <-answered
	require.ErrorIs(t, answer.Error, context.Canceled)
	require.EqualValues(t, statusClientClosed, answer.Status)
	require.Equal(t, backend.ErrorSourceDownstream, answer.ErrorSource)
	require.Eventually(t, func() bool { return inUse() == 0 }, testPatience, testPause, "the work has stopped")
	t.Logf("stopped %v after the cancel", time.Since(begin))
	require.Empty(t, d.answers.computations)
}

// A request under way keeps its stores open; the last one closes it.
func TestDisposeWaitsForRequests(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := Open(settingsOf(t, map[string]any{"snapshotDir": dir}), func() time.Time { return o.End })
	stores, done, err := d.use(context.Background())
	require.NoError(t, err)
	d.Dispose()
	_, _, ok, err := stores.Timeline.Range(context.Background())
	require.NoError(t, err)
	require.True(t, ok, "still open")
	done()
	_, _, _, err = stores.Timeline.Range(context.Background())
	require.Error(t, err, "closed with the last request")
	_, _, err = d.use(context.Background())
	require.ErrorIs(t, err, errDisposed)
}

// openFiles are the files below a directory that this process has open.
func openFiles(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("open files can be listed on Linux only")
	}
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, dir) {
			files = append(files, target)
		}
	}
	return files
}

// New instances read ahead what queries will ask for.
func TestNewReadsAhead(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	instance, err := New(context.Background(), settingsOf(t, map[string]any{"snapshotDir": dir}))
	require.NoError(t, err)
	d := instance.(*Datasource)
	defer d.Dispose()
	require.Eventually(t, func() bool {
		stores, open := d.stores.look()
		if !open {
			return false
		}
		used, _ := stores.Timeline.Memory()
		return used > 0 && d.stores.users() == 0
	}, testPatience, testPause)
}
