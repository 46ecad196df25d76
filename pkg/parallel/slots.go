package parallel

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

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
