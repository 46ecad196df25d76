package plugin

import (
	"context"
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
)

// waiting waits until so many callers wait for the key.
func waiting(t *testing.T, f *flights, key string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.running[key] != nil && f.running[key].waiting == n
	}, testPatience, testPause)
}

func TestEqualQueriesAreComputedOnce(t *testing.T) {
	var f flights
	var computed atomic.Int32
	release := make(chan struct{})
	answers := make([]data.Frames, 10)
	var callers sync.WaitGroup
	for i := range answers {
		callers.Add(1)
		go func() {
			defer callers.Done()
			frames, err := f.do(context.Background(), "same", func(context.Context) (data.Frames, error) {
				computed.Add(1)
				<-release
				return data.Frames{data.NewFrame("answer")}, nil
			})
			if err == nil {
				answers[i] = frames
				frames[0].RefID = string(rune('A' + i)) // as the SDK does
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
	require.Empty(t, f.running)
}

func TestOneCallersCancelLeavesTheOthers(t *testing.T) {
	var f flights
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
		_, err := f.do(ctx, "same", compute)
		first <- err
	}()
	waiting(t, &f, "same", 1)
	second := make(chan error, 1)
	go func() {
		_, err := f.do(context.Background(), "same", compute)
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
	var f flights
	stopped, answered := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := f.do(ctx, "same", func(ctx context.Context) (data.Frames, error) {
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
	// whoever asks now is computed afresh
	_, err := f.do(context.Background(), "same", func(ctx context.Context) (data.Frames, error) { return nil, ctx.Err() })
	require.NoError(t, err)
}

func TestPanicsAndErrorsReachEveryCaller(t *testing.T) {
	var f flights
	_, err := f.do(context.Background(), "a", func(context.Context) (data.Frames, error) { panic("boom") })
	require.ErrorContains(t, err, "bug of the plugin: boom")
	want := errors.New("no")
	_, err = f.do(context.Background(), "b", func(context.Context) (data.Frames, error) { return nil, want })
	require.ErrorIs(t, err, want)
	require.Empty(t, f.running)
}

// A computation knows how long its answer is of use to somebody.
func TestTheLongestDeadlineIsPassedOn(t *testing.T) {
	var f flights
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
		callers.Go(func() { _, _ = f.do(ctx, "same", compute) })
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

// A job source that does not answer is given up in time to answer from snapshots.
func TestHangingElasticsearch(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(stop)
	s := settingsOf(t, map[string]any{"snapshotDir": dir, "jobs": "elasticsearch", "jobsIndex": "htcondor"})
	s.URL = server.URL
	d := Open(s, func() time.Time { return o.End })
	defer d.Dispose()
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
