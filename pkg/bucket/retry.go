package bucket

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// parallelRequests bounds what a bucket is asked at the same time.
	parallelRequests = 32
	tries            = 5
	firstPause       = 100 * time.Millisecond
	longestPause     = time.Second
	// oneTry bounds a request; large bodies get a second more for each megabyte.
	oneTry = 20 * time.Second
)

// do makes a request of which so many bytes are the body, until it succeeds or a further try would not. The pauses
// between the tries double, with some randomness, so that clients do not come back all at once.
func (b *Bucket) do(ctx context.Context, doing string, size int64, request func(context.Context) error) error {
	pause := firstPause
	for n := 1; ; n++ {
		err := b.once(ctx, size, request)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if n == tries || !classify(err).retry {
			return b.explain(doing, err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}

func (b *Bucket) once(ctx context.Context, size int64, request func(context.Context) error) error {
	select {
	case b.running <- struct{}{}:
		defer func() { <-b.running }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, oneTry+time.Duration(size>>20)*time.Second)
	defer cancel()
	return request(ctx)
}
