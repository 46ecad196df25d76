package bucket

import (
	"context"
	"errors"
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
			return pool.SourceError("the bucket %s: %w: no answer within %s", b.name, ErrUnreachable, limit)
		}}
}
