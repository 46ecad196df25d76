// Package parallel turns panics of goroutines into errors that hold the stack, so that none ends the process. A test
// checks that no other package starts goroutines.
package parallel

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Panic is the error that a panic becomes.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("a bug of the plugin: %v", p.Value) }

// Recovered calls f, and returns a *Panic if it panics.
func Recovered(f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &Panic{value, debug.Stack()}
		}
	}()
	return f()
}

// Go calls f in a goroutine of its own, and then done with its error.
func Go(f func() error, done func(error)) {
	go func() { done(Recovered(f)) }()
}

// Group is an errgroup.Group whose goroutines recover from panics.
type Group struct{ *errgroup.Group }

// WithContext returns a group, and a context that ends with the first error of the group or when Wait returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	group, inner := errgroup.WithContext(ctx)
	return &Group{group}, inner
}

// Go calls f in a goroutine of its own, as soon as the limit allows.
func (g *Group) Go(f func() error) { g.Group.Go(func() error { return Recovered(f) }) }

// Each calls do for the numbers 0 … n−1 on all cores. It returns ctx's error when that ended, or a *Panic.
func Each(ctx context.Context, n int, do func(i int)) error {
	return EachWith(ctx, n, func(_ *struct{}, i int) { do(i) })
}

// EachWith is Each with a state, zero at first. Calls that get the same state come one after another.
func EachWith[S any](ctx context.Context, n int, do func(state *S, i int)) error {
	var next atomic.Int64
	group, inner := WithContext(ctx)
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			state := new(S)
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := inner.Err(); err != nil {
					return err
				}
				do(state, i)
			}
		})
	}
	return group.Wait()
}

// Chunks is Each for numbers that cost little: it calls do for size of them at a time, from the first up to before end.
func Chunks(ctx context.Context, n, size int, do func(first, end int)) error {
	return Each(ctx, (n+size-1)/size, func(i int) { do(i*size, min((i+1)*size, n)) })
}

// Until yields the numbers 0 … n−1 until ctx ends, whose error the caller returns then.
func Until(ctx context.Context, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && ctx.Err() == nil && yield(i); i++ {
		}
	}
}

// Wait waits for a time. Errors are ctx's, which ends the waiting.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
