// Package parallel turns panics of goroutines into errors that hold the stack, so that none ends the process. A test
// checks that no other package starts goroutines.
package parallel

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
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

// Slots bounds the computations that run at the same time. A computation holds its slot only while it computes.
// While it waits for a server or for another computation, it gives the slot up, so that a hanging one does not block
// the others.
type Slots struct{ free *semaphore.Weighted }

// NewSlots returns n slots.
func NewSlots(n int64) *Slots { return &Slots{semaphore.NewWeighted(n)} }

// Compute calls f once a slot is free. Errors are f's, and ctx's while it waits.
func (s *Slots) Compute(ctx context.Context, f func(context.Context) error) error {
	if err := s.free.Acquire(ctx, 1); err != nil {
		return err
	}
	c := &computation{slots: s, holds: true}
	defer c.end()
	return f(context.WithValue(ctx, computationKey{}, c))
}

type computationKey struct{}

// computation is one that may hold a slot.
type computation struct {
	slots *Slots
	mu    sync.Mutex
	holds bool
	idle  int // how many of its goroutines wait
	ended bool
}

// Idle calls wait, which waits rather than computes. Meanwhile ctx's computation holds no slot. Errors are wait's, and
// ctx's while it waits for a slot afterwards.
func Idle(ctx context.Context, wait func() error) error {
	c, _ := ctx.Value(computationKey{}).(*computation)
	if c == nil {
		return wait()
	}
	c.mu.Lock()
	c.idle++
	c.giveUp()
	c.mu.Unlock()
	err := wait()
	if late := c.resume(ctx); err == nil {
		err = late
	}
	return err
}

// Acquire takes a turn that others hold while they wait for servers or compute. Errors are ctx's; the turn is not taken
// then.
func Acquire(ctx context.Context, turn *semaphore.Weighted) error {
	taken := false
	err := Idle(ctx, func() error {
		err := turn.Acquire(ctx, 1)
		taken = err == nil
		return err
	})
	if err != nil && taken {
		turn.Release(1)
	}
	return err
}

// giveUp gives the slot up, if it is held. c.mu is held.
func (c *computation) giveUp() {
	if c.holds {
		c.holds = false
		c.slots.free.Release(1)
	}
}

// resume takes a slot again, unless another goroutine still waits and takes it later.
func (c *computation) resume(ctx context.Context) error {
	c.mu.Lock()
	c.idle--
	needed := c.idle == 0 && !c.holds && !c.ended
	c.mu.Unlock()
	if !needed {
		return nil
	}
	if err := c.slots.free.Acquire(ctx, 1); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds || c.ended {
		c.slots.free.Release(1)
		return nil
	}
	c.holds = true
	return nil
}

func (c *computation) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.giveUp()
}
