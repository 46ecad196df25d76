package fleet

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// A shard that failed is an error with numbers, never an answer without what it holds; so is time that ran out.
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
		store, err := Open(Config{URL: server.URL, Index: "facts"})
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
