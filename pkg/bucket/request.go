package bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

const (
	// parallelRequests bounds the requests to a bucket at the same time.
	parallelRequests = 32
	// oneTry bounds a request; large bodies get a second more for each megabyte.
	oneTry = 20 * time.Second
)

var retries = remote.Policy{Attempts: 5, First: 100 * time.Millisecond, Longest: time.Second}

// do makes a request with a body of size bytes, until it succeeds or a further try would not help.
func (b *Bucket) do(ctx context.Context, doing string, size int64, request func(context.Context) error) error {
	err := remote.Retry(ctx, retries, func() error {
		if err := b.running.Acquire(ctx, 1); err != nil {
			return err
		}
		defer b.running.Release(1)
		limited, cancel := context.WithTimeout(ctx, oneTry+time.Duration(size>>20)*time.Second)
		defer cancel()
		err := b.awaitKeys(limited)
		if err == nil {
			err = request(limited)
		}
		if err != nil && classify(err).retry {
			return &remote.Temporary{Err: err}
		}
		return err
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return b.explain(doing, err)
}

// awaitKeys waits until the keys of the machine are known, or known to be missing: the client, which asks for them
// under a lock, would wait beyond ctx's end.
func (b *Bucket) awaitKeys(ctx context.Context) error {
	known := make(chan struct{})
	parallel.Go(func() error {
		_, _ = b.client.GetCreds() // the request has the error
		return nil
	}, func(error) { close(known) })
	select {
	case <-known:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// NewBreaker returns a breaker for requests that wait so long, and if the bucket failed before, retryLimit.
func (b *Bucket) NewBreaker(limit, retryLimit time.Duration) *remote.Breaker {
	return &remote.Breaker{Limit: limit, RetryLimit: retryLimit,
		Harmless: func(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrPrecondition) },
		TimedOut: func(limit time.Duration) error {
			return pool.SourceError("the bucket %s: %w: no answer within %s", b.Name(), ErrUnreachable, limit)
		}}
}

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
