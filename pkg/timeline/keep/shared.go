package keep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
)

// Shared keeps blobs of finished days in a bucket, for all processes that read the same snapshots. Each is an object
// that is written once and never changed, under a key of what it was made from. An object that is damaged or foreign is
// not believed, and not removed either. It is safe for concurrent use.
type Shared struct {
	bucket *bucket.Bucket

	reads, writes requests // apart: keys may be such that only read
}

// requests are those of one sort, with what became of the last one.
type requests struct {
	patience time.Duration // what a query waits for one at most: the snapshots answer too

	mu     sync.Mutex
	failed error     // of the last one, nil if it succeeded
	until  time.Time // the bucket is left alone
}

// NewShared returns what is kept in a bucket.
func NewShared(b *bucket.Bucket) *Shared {
	return &Shared{bucket: b, reads: requests{patience: 5 * time.Second}, writes: requests{patience: 20 * time.Second}}
}

// pause is how long a bucket is left alone that failed.
const pause = 30 * time.Second

// triedAgain is what a query waits at most for a bucket that failed before.
const triedAgain = time.Second

// Key is the object's key: segments/5/2026-05-14-<hash of the identity>.
func (b Blob) Key(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	return fmt.Sprintf("%ss/%d/%s-%s", b.Kind, b.Version, b.day(), hex.EncodeToString(sum[:16]))
}

// Read returns a function that hands the body of a blob to take, valid during the call; nil if there is none. identity
// is that of the rows that the blob was made from. Errors, for a notice: the bucket failed, without its details, or the
// object is not believed; ctx's.
func (s *Shared) Read(ctx context.Context, b Blob, identity string) (body func(take func([]byte) error) error,
	err error) {
	key := b.Key(identity)
	var content []byte
	err = s.reads.ask(ctx, s.bucket.Name(), func(ctx context.Context) (err error) {
		content, _, err = s.bucket.Get(ctx, key)
		return err
	})
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, nil
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, bucket.ErrDenied):
		return nil, pool.SourceError("the bucket %s refuses to be read", s.bucket.Name())
	case err != nil:
		return nil, pool.SourceError("the bucket %s cannot be reached", s.bucket.Name())
	}
	unbelieved := func(err error) error {
		return pool.SourceError("the bucket %s: %s is not believed (%w), and not used: remove it", s.bucket.Name(), key, err)
	}
	var of string
	use, err := b.open(content, &of)
	if err == nil && of != identity {
		err = errForeign
	}
	if err != nil {
		return nil, unbelieved(err)
	}
	return func(take func([]byte) error) error {
		if err := use(take); err != nil {
			return unbelieved(err)
		}
		return nil
	}, nil
}

// Write puts a blob's body into the bucket unless it is there already. won is false if it was. Errors: the bucket
// failed; ctx's.
func (s *Shared) Write(ctx context.Context, b Blob, identity string, body []byte) (won bool, err error) {
	content, err := b.pack(identity, body)
	if err != nil {
		return false, err
	}
	err = s.writes.ask(ctx, s.bucket.Name(), func(ctx context.Context) error {
		_, err := s.bucket.Put(ctx, b.Key(identity), content, bucket.IfAbsent())
		return err
	})
	if errors.Is(err, bucket.ErrPrecondition) {
		return false, nil
	}
	return err == nil, err
}

// Has reports whether there is an object of a blob. Errors: the bucket failed; ctx's.
func (s *Shared) Has(ctx context.Context, b Blob, identity string) (bool, error) {
	err := s.reads.ask(ctx, s.bucket.Name(), func(ctx context.Context) error {
		_, err := s.bucket.Stat(ctx, b.Key(identity))
		return err
	})
	if errors.Is(err, bucket.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// ask makes a request, unless the bucket failed a moment ago.
func (r *requests) ask(ctx context.Context, name string, request func(context.Context) error) error {
	until, failed := r.last()
	patience := r.patience
	if failed != nil {
		if time.Now().Before(until) {
			return failed
		}
		patience = min(patience, triedAgain)
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := request(limited)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && limited.Err() != nil {
		err = pool.SourceError("the bucket %s has not answered within %s", name, patience)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed = err; errors.Is(err, bucket.ErrNotFound) || errors.Is(err, bucket.ErrPrecondition) {
		r.failed = nil
	}
	r.until = time.Now().Add(pause)
	return err
}

func (r *requests) last() (until time.Time, failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.until, r.failed
}

// Err returns the errors of the last request that read and of the last one that wrote, nil where it succeeded.
func (s *Shared) Err() (reading, writing error) {
	_, reading = s.reads.last()
	_, writing = s.writes.last()
	return reading, writing
}

// Name is the bucket's.
func (s *Shared) Name() string { return s.bucket.Name() }

// Counts returns what the bucket has been asked.
func (s *Shared) Counts() bucket.Counts { return s.bucket.Counts() }

// Close closes the connections.
func (s *Shared) Close() { s.bucket.Close() }
