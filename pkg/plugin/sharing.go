package plugin

import (
	"context"
	"errors"
	"io"
	"sync"
)

var errDisposed = errors.New("the data source was closed while its settings were saved: ask again")

// sharing opens what requests share when it is first asked for, and closes it when nobody uses it any more and nobody
// will ask for it. It is safe for concurrent use.
type sharing[T io.Closer] struct {
	open   func(context.Context) (T, error)
	failed func(error) // is told what closing says

	mu     sync.Mutex
	now    *share[T] // nil: nothing is open
	closed bool      // nobody will ask
}

// share is something that is open.
type share[T io.Closer] struct {
	of    T
	users int // requests under way
}

// take returns what is open for one request, which must leave it at its end; replaced, if it is that, has had its time.
func (s *sharing[T]) take(ctx context.Context, replaced *share[T]) (*share[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && s.now == nil {
		return nil, errDisposed
	}
	if before := s.now; before != nil && before == replaced && !s.closed {
		s.now = nil
		s.closeUnused(before)
	}
	if s.now == nil {
		opened, err := s.open(ctx)
		if err != nil {
			return nil, err
		}
		s.now = &share[T]{of: opened}
	}
	s.now.users++
	return s.now, nil
}

// leave ends a request's use.
func (s *sharing[T]) leave(o *share[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.users--
	s.closeUnused(o)
}

// close closes what is open: at once, or with the last request that uses it.
func (s *sharing[T]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.now != nil {
		s.closeUnused(s.now)
	}
}

// closeUnused closes what nobody uses and nobody will ask for. s.mu is held.
func (s *sharing[T]) closeUnused(o *share[T]) {
	if o.users > 0 || o == s.now && !s.closed {
		return
	}
	if err := o.of.Close(); err != nil {
		s.failed(err)
	}
	if o == s.now {
		s.now = nil
	}
}

// look returns what is open without asking for it; ok is false if nothing is.
func (s *sharing[T]) look() (of T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return of, false
	}
	return s.now.of, true
}
