package plugin

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
)

// flights computes equal queries once: who asks what is being computed waits for that answer. A computation is
// cancelled when nobody waits for it any more.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	cancel  context.CancelFunc
	waiting int
	done    chan struct{} // closed when frames and err are final
	frames  data.Frames
	err     error
}

// do returns compute's answer for the key. ctx ends the waiting, not the work that others wait for.
func (f *flights) do(ctx context.Context, key string, compute func(context.Context) (data.Frames, error)) (data.Frames, error) {
	f.mu.Lock()
	running := f.running[key]
	if running == nil {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		running = &flight{cancel: cancel, done: make(chan struct{})}
		if f.running == nil {
			f.running = map[string]*flight{}
		}
		f.running[key] = running
		go f.compute(own, key, running, compute)
	}
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

func (f *flights) compute(ctx context.Context, key string, running *flight, compute func(context.Context) (data.Frames, error)) {
	defer func() {
		if r := recover(); r != nil {
			backend.Logger.FromContext(ctx).Error("query panicked", "panic", r, "stack", string(debug.Stack()))
			running.err = fmt.Errorf("a bug of the plugin: %v", r)
		}
		f.mu.Lock()
		f.forget(key, running)
		f.mu.Unlock()
		close(running.done)
		running.cancel()
	}()
	running.frames, running.err = compute(ctx)
}

func (f *flights) forget(key string, running *flight) {
	if f.running[key] == running {
		delete(f.running, key)
	}
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
