package elastic

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A server or proxy that says Retry-After: a day does not make a publisher, whose context has no deadline, wait for a
// day; the answer is returned.
func TestRetryAfterADay(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Retry-After", "86400")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	c, err := New(s.URL, nil, Remedies{})
	require.NoError(t, err)
	begin := time.Now()
	_, err = c.Pin(t.Context(), "facts")
	require.ErrorContains(t, err, "503 Service Unavailable")
	require.Less(t, time.Since(begin), 30*time.Second)
	require.Equal(t, 1, requests)
}

// always is a server that is always busy, without a network.
type always struct {
	retryAfter string
	requests   int
}

func (a *always) RoundTrip(*http.Request) (*http.Response, error) {
	a.requests++
	return &http.Response{Status: "429 Too Many Requests", StatusCode: http.StatusTooManyRequests, Body: http.NoBody,
		Header: http.Header{"X-Elastic-Product": {"Elasticsearch"}, "Retry-After": {a.retryAfter}}}, nil
}

// A pause of up to a minute is granted.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &always{retryAfter: "20"}
		c, err := New("http://elasticsearch", server, Remedies{})
		require.NoError(t, err)
		begin := time.Now()
		_, err = c.Pin(t.Context(), "facts")
		require.ErrorContains(t, err, "429 Too Many Requests")
		require.Equal(t, Attempts, server.requests)
		require.Equal(t, 4*20*time.Second, time.Since(begin))
	})
}
