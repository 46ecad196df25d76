package plugin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/parallel"
)

// answerLifetime is how long equal questions share an answer, from the beginning of its computation onward: viewers of
// one dashboard ask within a moment of each other, and its panels at the same refresh. Whoever asks later is answered
// from data that were read later.
const answerLifetime = time.Second

// answerCache computes equal questions once. A question joins a computation, running or finished, for as long as
// answers live; a finished one only if it succeeded and its result fits. A computation is cancelled when no caller
// waits for it anymore. It is safe for concurrent use.
type answerCache struct {
	lifetime time.Duration
	maxBytes int64 // bounds all finished answers; 0 keeps none

	mu           sync.Mutex
	bytes        int64
	computations map[string]*computation
}

// computation is also the context of its work. The deadline is the latest of the waiting callers', so that a source
// that does not answer is given up in time to answer without it. The work ends when the last caller leaves.
type computation struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelFunc
	cache           *answerCache
	deadline        time.Time
	forever         bool          // a caller waits without a deadline
	waiting         int           // callers, at least until it is finished
	done            chan struct{} // closed when result and err are final
	result          data.Frames   // shared: read only
	err             error
	bytes           int64 // that the result takes of the room
}

// Deadline implements [context.Context].
func (c *computation) Deadline() (deadline time.Time, ok bool) {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()
	return c.deadline, !c.forever
}

// get returns compute's result for the key. ctx ends the waiting, not the work that others wait for. A panic of compute
// is a *parallel.Panic.
func (c *answerCache) get(ctx context.Context, key string,
	compute func(context.Context) (data.Frames, error)) (data.Frames, error) {
	c.mu.Lock()
	found := c.computations[key]
	if found == nil {
		found = c.start(ctx, key, compute)
	}
	if deadline, ok := ctx.Deadline(); !ok {
		found.forever = true
	} else if deadline.After(found.deadline) {
		found.deadline = deadline
	}
	found.waiting++
	c.mu.Unlock()

	select {
	case <-found.done:
		return found.result, found.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if found.waiting--; found.waiting == 0 {
			found.cancel()
			c.forget(key, found) // because later callers need an answer that is not cancelled
		}
		return nil, ctx.Err()
	}
}

// start begins a computation. It inherits the context values of the first caller. c.mu is held.
func (c *answerCache) start(ctx context.Context, key string,
	compute func(context.Context) (data.Frames, error)) *computation {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	started := &computation{Context: own, cancel: cancel, cache: c, done: make(chan struct{})}
	if c.computations == nil {
		c.computations = map[string]*computation{}
	}
	c.computations[key] = started
	time.AfterFunc(c.lifetime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(key, started)
	})
	parallel.Go(func() (err error) {
		started.result, err = compute(started)
		return err
	}, func(err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		const perFrame, perCell = 2048, 24 // with its fields; a value, or the header of a text
		size := int64(len(key) + perFrame*len(started.result) + perCell*cellsOf(started.result))
		switch started.err = err; {
		case err != nil || c.bytes+size > c.maxBytes:
			c.forget(key, started)
		case c.computations[key] == started: // it is kept for the rest of its life
			started.bytes = size
			c.bytes += size
		}
		close(started.done)
		cancel()
	})
	return started
}

// forget removes a computation, so that no other caller finds it. c.mu is held.
func (c *answerCache) forget(key string, old *computation) {
	if c.computations[key] == old {
		delete(c.computations, key)
		c.bytes -= old.bytes
	}
}

// copies lets each caller name its frames; their fields are shared and not changed by anybody.
func copies(frames data.Frames) data.Frames {
	own := slices.Clone(frames)
	for i, frame := range own {
		c := *frame
		own[i] = &c
	}
	return own
}

func cellsOf(frames data.Frames) (n int) {
	for _, f := range frames {
		for _, field := range f.Fields {
			n += field.Len()
		}
	}
	return n
}
