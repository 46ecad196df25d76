package plugin

import (
	"context"
	"encoding/json"
	"errors"
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

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

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
