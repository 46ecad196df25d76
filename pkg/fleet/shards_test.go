package fleet

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// A failed shard is an error with numbers, never an answer without the shard's data; a search that timed out is an
// error as well.
func TestNothingIsAnsweredInPart(t *testing.T) {
	for text, want := range map[string]string{
		`"_shards": {"total": 12, "failed": 1, "failures": [{"index": "facts-2025-11", "reason": {"type": "io_exception"}}]}`: "1 of 12 shards failed (index facts-2025-11: io_exception)",
		`"timed_out": true`: "the server's time ran out",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Elastic-Product", "Elasticsearch")
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/_pit") {
				fmt.Fprint(w, `{"id": "one"}`)
				return
			}
			fmt.Fprintf(w, `{%s, "hits": {"hits": []}}`, text)
		}))
		t.Cleanup(server.Close)
		store, err := Open(server.URL, nil, "facts")
		require.NoError(t, err)
		_, err = store.Pools(t.Context())
		require.ErrorContains(t, err, want)
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	}
}

func TestIndexNames(t *testing.T) {
	for _, wrong := range []string{"", "Facts", "facts*", "a,b", "-facts", "a b"} {
		require.Error(t, CheckIndex(wrong), wrong)
	}
	require.NoError(t, CheckIndex("gpu-facts_2"))
}

// A server that does not answer is given up, with an error that says so: after the store's own time if the caller sets
// none, otherwise before the caller's deadline.
func TestHangingServer(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	for own, deadline := range map[time.Duration]time.Duration{50 * time.Millisecond: time.Hour, time.Hour: time.Second} {
		store, err := Open(server.URL, nil, "facts")
		require.NoError(t, err)
		store.timeout = own
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		_, err = store.Pools(ctx)
		require.ErrorContains(t, err, server.URL)
		require.ErrorContains(t, err, "no answer in time")
		require.Equal(t, pool.FaultSource, pool.FaultOf(err))
		require.NoError(t, ctx.Err(), "the caller still waits for the reason")
	}
}

// A node that goes away costs a second question, which other nodes answer; if they do not, either, that is an error.
func TestNodeGoesAway(t *testing.T) {
	gone := `{"_shards": {"total": 2, "failed": 1, "failures": [{"index": "facts-2025-11", "reason": {"type": "x"}}]}}`
	for failing, works := range map[int]bool{1: true, 2: false} {
		searches := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Elastic-Product", "Elasticsearch")
			w.Header().Set("Content-Type", "application/json")
			if strings.HasSuffix(r.URL.Path, "/_pit") {
				fmt.Fprint(w, `{"id": "one"}`)
				return
			}
			if searches++; searches <= failing {
				fmt.Fprint(w, gone)
				return
			}
			fmt.Fprint(w, `{"hits": {"hits": []}}`)
		}))
		t.Cleanup(server.Close)
		store, err := Open(server.URL, nil, "facts")
		require.NoError(t, err)
		_, err = store.Pools(t.Context())
		require.Equal(t, works, err == nil, "%v", err)
	}
}
