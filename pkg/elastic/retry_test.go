package elastic

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
