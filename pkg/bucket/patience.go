package bucket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/pool"
)

// Patience bounds what waiting for a bucket costs those who can do without it: after a failure it is left alone for a
// while. It is safe for concurrent use.
type Patience struct {
	name         string
	first, again time.Duration

	mu       sync.Mutex
	failed   error     // of the last request, nil if it succeeded
	since    time.Time // of the first failure in a row
	until    time.Time // the bucket is left alone
	answered time.Time // of the last request that succeeded
}

// pause is how long a bucket is left alone that failed.
const pause = 30 * time.Second

// NewPatience returns the patience of requests that wait for a bucket so long, and if it failed before, again.
func NewPatience(b *Bucket, first, again time.Duration) *Patience {
	return &Patience{name: b.name, first: first, again: again}
}

// Patience is the bucket's own, for all who read what cannot be had elsewhere.
func (b *Bucket) Patience() *Patience { return b.patience }

// Ask makes a request, unless the bucket failed a moment ago: then it returns that failure. The failure says since when
// the bucket fails. That there is no such object, or another one, is none.
func (p *Patience) Ask(ctx context.Context, request func(context.Context) error) error {
	begin := time.Now()
	p.mu.Lock()
	failed, until := p.failed, p.until
	p.mu.Unlock()
	limit := p.first
	if failed != nil {
		if begin.Before(until) {
			return failed
		}
		limit = p.again
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := request(limited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && limited.Err() != nil {
		err = pool.SourceError("the bucket %s: %w: no answer within %s", p.name, ErrUnreachable, limit)
	}
	return p.take(err, begin)
}

// take keeps what became of a request that began at a moment.
func (p *Patience) take(err error, begin time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrPrecondition) {
		p.failed, p.answered = nil, time.Now()
		return err
	}
	if p.answered.After(begin) { // another request succeeded meanwhile
		return err
	}
	if p.failed == nil {
		p.since = begin
	}
	p.failed = fmt.Errorf("%w (%s)", err, p.text())
	p.until = time.Now().Add(pause)
	return p.failed
}

// Failure returns the error of the last request, nil if it succeeded.
func (p *Patience) Failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// Since says since when the bucket fails.
func (p *Patience) Since() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text()
}

func (p *Patience) text() string { return "since " + p.since.UTC().Format("2006-01-02 15:04:05 UTC") }

// Retry ends the time for which the bucket is left alone: the next request is made.
func (p *Patience) Retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
}
