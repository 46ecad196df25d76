package plugin

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/chtc/gpureports/pkg/parallel"
)

var errDisposed = errors.New("the data source was closed while its settings were saved: ask again")

// refCounted opens a resource that requests share with the first request, and closes it when no request uses it any
// more and none will come. It does so without holding its lock, because a file system can hang. It is safe for
// concurrent use.
type refCounted[T io.Closer] struct {
	open   func(context.Context) (T, error)
	failed func(error) // called with an error of closing

	mu      sync.Mutex
	current *reference[T] // nil: nothing is open or being opened
	closed  bool          // no more requests will come
}

// reference is something that is open or being opened.
type reference[T io.Closer] struct {
	opened chan struct{} // closed when of and err are final
	of     T
	err    error
	users  int // requests under way, and the opening
}

// take returns the open resource for one request, which must leave it at its end. If that is replaced, the reference
// that the caller still uses, it is reopened.
func (r *refCounted[T]) take(ctx context.Context, replaced *reference[T]) (*reference[T], error) {
	r.mu.Lock()
	if r.closed && r.current == nil {
		r.mu.Unlock()
		return nil, errDisposed
	}
	if r.current == nil || r.current == replaced && !r.closed {
		r.current = r.start(ctx)
	}
	taken := r.current
	taken.users++
	r.mu.Unlock()
	var err error
	select {
	case <-taken.opened:
		err = taken.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		r.leave(taken)
		return nil, err
	}
	return taken, nil
}

// start begins to open the resource. Because other requests wait for it as well, it continues when ctx ends.
func (r *refCounted[T]) start(ctx context.Context) *reference[T] {
	started := &reference[T]{opened: make(chan struct{}), users: 1}
	parallel.Go(func() (err error) {
		started.of, err = r.open(context.WithoutCancel(ctx))
		return err
	}, func(err error) {
		r.mu.Lock()
		if started.err = err; err != nil && r.current == started {
			r.current = nil // the next request tries again
		}
		r.mu.Unlock()
		r.leave(started)
		close(started.opened)
	})
	return started
}

// leave ends a request's use.
func (r *refCounted[T]) leave(used *reference[T]) {
	r.mu.Lock()
	used.users--
	r.unlock(used)
}

// close closes the resource: immediately, or with the last request that uses it.
func (r *refCounted[T]) close() {
	r.mu.Lock()
	r.closed = true
	r.unlock(r.current)
}

// unlock releases r.mu, and then closes a reference that is unused and will not be requested again.
func (r *refCounted[T]) unlock(used *reference[T]) {
	unused := used != nil && used.users == 0 && (r.closed || used != r.current)
	if unused && used == r.current {
		r.current = nil
	}
	r.mu.Unlock()
	if unused && used.err == nil {
		if err := used.of.Close(); err != nil {
			r.failed(err)
		}
	}
}
