package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/parallel"
)

// flights computes equal queries once: who asks what is being computed waits for that answer. A computation is
// cancelled when nobody waits for it any more.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	patience *patience // the computation's context
	cancel   context.CancelFunc
	waiting  int
	done     chan struct{} // closed when frames and err are final
	frames   data.Frames
	err      error
}

type compute func(context.Context) (data.Frames, error)

// do returns compute's answer for the key. ctx ends the waiting, not the work that others wait for. A panic of compute
// is a *parallel.Panic.
func (f *flights) do(ctx context.Context, key string, compute compute) (data.Frames, error) {
	f.mu.Lock()
	running := f.running[key]
	if running == nil {
		running = f.start(ctx, key, compute)
	}
	running.patience.extend(ctx)
	running.waiting++
	f.mu.Unlock()

	select {
	case <-running.done:
		return copies(running.frames), running.err
	case <-ctx.Done():
		f.mu.Lock()
		defer f.mu.Unlock()
		if running.waiting--; running.waiting == 0 {
			running.cancel()
			f.forget(key, running) // whoever asks from now on wants an answer that is not cancelled
		}
		return nil, ctx.Err()
	}
}

// start begins a computation. It inherits the values of who asked first, and the deadline of who waits the longest.
func (f *flights) start(ctx context.Context, key string, compute compute) *flight {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	running := &flight{patience: &patience{Context: own}, cancel: cancel, done: make(chan struct{})}
	running.patience.extend(ctx)
	if f.running == nil {
		f.running = map[string]*flight{}
	}
	f.running[key] = running
	parallel.Go(func() (err error) {
		running.frames, err = compute(running.patience)
		return err
	}, func(err error) {
		running.err = err
		f.mu.Lock()
		f.forget(key, running)
		f.mu.Unlock()
		close(running.done)
		cancel()
	})
	return running
}

func (f *flights) forget(key string, running *flight) {
	if f.running[key] == running {
		delete(f.running, key)
	}
}

// patience is the context of a computation. Its deadline, the latest of those who wait, says how long an answer is of
// use: a source that does not answer is given up in time to answer without it. The computation is ended by the last who
// waits.
type patience struct {
	context.Context //nolint:containedctx // it is one
	mu              sync.Mutex
	asked           bool
	deadline        time.Time // zero: somebody waits for ever
}

// extend takes in one more who waits.
func (p *patience) extend(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline, ok := ctx.Deadline()
	switch {
	case !ok:
		p.deadline = time.Time{}
	case !p.asked || !p.deadline.IsZero() && deadline.After(p.deadline):
		p.deadline = deadline
	}
	p.asked = true
}

// Deadline implements [context.Context].
func (p *patience) Deadline() (deadline time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deadline, !p.deadline.IsZero()
}

// copies lets each caller name its frames; their fields are shared and not changed by anybody.
func copies(frames data.Frames) data.Frames {
	if frames == nil {
		return nil
	}
	own := make(data.Frames, len(frames))
	for i, frame := range frames {
		c := *frame
		own[i] = &c
	}
	return own
}
