package remote

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errBusy  = errors.New("busy")
	errWrong = errors.New("wrong")
)

// A request is made again while it fails temporarily, with growing pauses, within the deadline only; a server that asks
// for a longer pause than a minute is not waited for.
func TestRetry(t *testing.T) {
	policy := Policy{Attempts: 5, First: time.Second, Longest: 3 * time.Second}
	for name, c := range map[string]struct {
		failures   int // temporary ones
		then       error
		retryAfter time.Duration
		deadline   time.Duration
		attempts   int
		want       error
		least      time.Duration
		most       time.Duration
	}{
		"succeeds":       {failures: 2, attempts: 3, least: 2250 * time.Millisecond, most: 3750 * time.Millisecond},
		"fails for good": {failures: 1, then: errWrong, attempts: 2, want: errWrong, most: 1250 * time.Millisecond},
		"stays busy": {failures: 9, attempts: 5, want: errBusy, least: 6750 * time.Millisecond,
			most: 11250 * time.Millisecond},
		"deadline": {failures: 9, deadline: 2 * time.Second, attempts: 2, want: errBusy,
			most: 1250 * time.Millisecond},
		"asks for a while":  {failures: 1, retryAfter: time.Minute, attempts: 2, least: time.Minute, most: time.Minute},
		"asks for too long": {failures: 1, retryAfter: 24 * time.Hour, attempts: 1, want: errBusy},
		"beyond a deadline": {failures: 1, retryAfter: 30 * time.Second, deadline: 20 * time.Second, attempts: 1,
			want: errBusy},
		"before the deadline": {failures: 1, retryAfter: 10 * time.Second, deadline: 20 * time.Second, attempts: 2,
			least: 10 * time.Second, most: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				begin, attempts := time.Now(), 0
				err := Retry(ctx, policy, func() error {
					if attempts++; attempts <= c.failures {
						return &Temporary{Err: errBusy, RetryAfter: c.retryAfter}
					}
					return c.then
				})
				require.Equal(t, c.want, err)
				require.Equal(t, c.attempts, attempts)
				require.GreaterOrEqual(t, time.Since(begin), c.least)
				require.LessOrEqual(t, time.Since(begin), c.most)
			})
		})
	}
}

// A pause ends with the context.
func TestRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin := time.Now()
		err := Retry(ctx, Policy{Attempts: 2, First: time.Hour, Longest: time.Hour}, func() error {
			return &Temporary{Err: errBusy}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, time.Since(begin))
	})
}
