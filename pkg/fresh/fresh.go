// Package fresh spares looks at what others may change: questions that wait together have one look, and none of them is
// answered by what was there before it was asked.
package fresh

import (
	"context"
	"sync/atomic"
	"time"
)

type asked struct{}

// Asked returns the context of a question that was asked at a moment.
func Asked(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, asked{}, at)
}

// Seen is what the last look at something found. The zero value is ready, and safe for concurrent use.
type Seen[T any] struct{ last atomic.Pointer[look[T]] }

type look[T any] struct {
	began time.Time
	found T
}

// Look returns what the last look found if it began after the question was asked that ctx belongs to; else it looks.
// What failed is looked at again.
func (s *Seen[T]) Look(ctx context.Context, find func() (T, error)) (T, error) {
	at, known := ctx.Value(asked{}).(time.Time)
	if last := s.last.Load(); known && last != nil && last.began.After(at) {
		return last.found, nil
	}
	now := time.Now()
	found, err := find()
	if err == nil {
		s.last.Store(&look[T]{now, found})
	}
	return found, err
}
