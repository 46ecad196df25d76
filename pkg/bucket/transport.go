package bucket

import (
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Counts are the numbers of requests to a bucket, and of bytes that they moved over the network.
type Counts struct {
	Requests       atomic.Int64 // each try counts
	Received, Sent atomic.Int64 // bytes of bodies
	inner          *http.Transport
}

func (c *Counts) RoundTrip(r *http.Request) (*http.Response, error) {
	c.Requests.Add(1)
	c.Sent.Add(max(0, r.ContentLength))
	response, err := c.inner.RoundTrip(r)
	if err == nil {
		most := int64(pool.MostAnswer)
		if r.Method == http.MethodGet && response.StatusCode < 300 && !r.URL.Query().Has("list-type") {
			most = math.MaxInt64 // the reader of an object bounds it
		}
		response.Body = &countedBody{response.Body, &c.Received, most}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	n    *atomic.Int64
	left int64 // bytes that it may have
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLong(pool.MostAnswer)
	}
	return n, err
}

// newTransport makes the connections of one bucket.
func newTransport(p place) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		TLSClientConfig:       &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12},
		ResponseHeaderTimeout: 15 * time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConns:          parallelRequests,
		MaxIdleConnsPerHost:   parallelRequests,
		DisableCompression:    true, // the objects are compressed
	}
}
