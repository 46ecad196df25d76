package plugin

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// thing says how often it was closed.
type thing struct {
	closed int
	wrong  error
}

func (t *thing) Close() error {
	t.closed++
	return t.wrong
}

// users is the number of requests that use the open resource.
func (r *refCounted[T]) users() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		return 0
	}
	return r.current.users
}

// look returns the open resource without opening it; ok is false if it is not open.
func (r *refCounted[T]) look() (of T, ok bool) {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	if current == nil {
		return of, false
	}
	select {
	case <-current.opened:
		return current.of, current.err == nil
	default:
		return of, false
	}
}

func newRefCounted() (s *refCounted[*thing], opened *[]*thing, said *[]error) {
	opened, said = &[]*thing{}, &[]error{}
	return &refCounted[*thing]{
		open: func(context.Context) (*thing, error) {
			*opened = append(*opened, &thing{})
			return (*opened)[len(*opened)-1], nil
		},
		failed: func(err error) { *said = append(*said, err) },
	}, opened, said
}

// An open resource serves all requests, and is closed once, with the last of them.
func TestSharedUntilTheLastRequest(t *testing.T) {
	s, opened, _ := newRefCounted()
	take := func() *reference[*thing] {
		taken, err := s.take(t.Context(), nil)
		require.NoError(t, err)
		return taken
	}
	first, second := take(), take()
	require.Same(t, first, second)
	s.leave(first)
	s.leave(second)
	require.Zero(t, (*opened)[0].closed, "the next request will ask for it")
	third := take()
	s.close()
	fourth := take()
	require.Same(t, third, fourth, "as long as somebody uses it")
	s.leave(third)
	require.Zero(t, (*opened)[0].closed)
	s.leave(fourth)
	require.Equal(t, 1, (*opened)[0].closed)
	_, err := s.take(t.Context(), nil)
	require.ErrorIs(t, err, errDisposed)
	s.close()
	require.Equal(t, 1, (*opened)[0].closed)
	require.Len(t, *opened, 1)
}

// A replaced resource is closed with its last request, no matter which request found the replacement; the other
// requests get the current one.
func TestReplacedIsClosed(t *testing.T) {
	s, opened, said := newRefCounted()
	old, err := s.take(t.Context(), nil)
	require.NoError(t, err)
	old.of.wrong = errors.New("a stale handle")
	now, err := s.take(t.Context(), old)
	require.NoError(t, err)
	require.NotSame(t, old, now)
	also, err := s.take(t.Context(), old)
	require.NoError(t, err)
	require.Same(t, now, also)
	require.Zero(t, old.of.closed)
	s.leave(old)
	require.Equal(t, 1, old.of.closed)
	require.Equal(t, []error{old.of.wrong}, *said)
	s.leave(now)
	s.leave(also)
	require.Zero(t, now.of.closed)
	s.close()
	require.Equal(t, 1, now.of.closed)
	require.Len(t, *opened, 2)
}

// What cannot be opened is tried again by the next request.
func TestOpenedAtTheNextRequest(t *testing.T) {
	s, _, _ := newRefCounted()
	works, wrong := s.open, errors.New("not mounted yet")
	s.open = func(context.Context) (*thing, error) { return nil, wrong }
	_, err := s.take(t.Context(), nil)
	require.ErrorIs(t, err, wrong)
	_, ok := s.look()
	require.False(t, ok)
	s.open = works
	taken, err := s.take(t.Context(), nil)
	require.NoError(t, err)
	of, ok := s.look()
	require.True(t, ok)
	require.Same(t, taken.of, of)
	require.Equal(t, 1, s.users())
}

// No request waits for a hanging file system beyond its deadline, and closing does not wait at all.
func TestOpeningHoldsNoLock(t *testing.T) {
	release, closed := make(chan struct{}), make(chan error, 1)
	stale := errors.New("a stale handle")
	s := &refCounted[*thing]{
		open: func(context.Context) (*thing, error) {
			<-release
			return &thing{wrong: stale}, nil
		},
		failed: func(err error) { closed <- err },
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPause)
	defer cancel()
	_, err := s.take(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	s.close()
	close(release)
	require.ErrorIs(t, <-closed, stale, "opened for nobody")
	_, err = s.take(t.Context(), nil)
	require.ErrorIs(t, err, errDisposed)
}
