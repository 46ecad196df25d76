package segcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

// Shared keeps blobs of finished days in a bucket, for all processes that read the same snapshots. Each is an object
// whose key is derived from its source rows, and which is written once. An object that is damaged or not a blob is
// ignored, but not removed. It is safe for concurrent use.
type Shared struct {
	Bucket *bucket.Bucket

	reads, writes *remote.Breaker // apart: keys may be such that only read
}

// The longest waits of a query, because it can be answered from the snapshots instead.
const (
	readWithin  = 5 * time.Second
	writeWithin = 20 * time.Second
	triedAgain  = time.Second // if the bucket failed before
)

// NewShared returns the blobs in a bucket.
func NewShared(b *bucket.Bucket) *Shared {
	return &Shared{Bucket: b, reads: b.NewBreaker(readWithin, triedAgain),
		writes: b.NewBreaker(writeWithin, triedAgain)}
}

// Key is the object's key: segments/7/2026-05-14-<hash of the identity>.
func (b Blob) Key(identity string) string {
	sum := sha256.Sum256([]byte(identity))
	folder := strings.TrimSuffix(b.Kind, "s") + "s"
	return fmt.Sprintf("%s/%d/%s-%s", folder, b.Version, b.name(), hex.EncodeToString(sum[:16]))
}

// Read passes the body of a blob to take, still packed; there is false if there is none. identity is that of the rows
// that the blob was made from. Errors, for a notice: the bucket failed, without its details, or the object is invalid,
// or take refuses it; ctx's.
func (s *Shared) Read(ctx context.Context, b Blob, identity string, take func(unpack func() ([]byte, error)) error) (
	there bool, err error) {
	key := b.Key(identity)
	var content []byte
	err = s.reads.Ask(ctx, func(ctx context.Context) (err error) {
		content, _, err = s.Bucket.Get(ctx, key)
		return err
	})
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return false, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, bucket.ErrDenied):
		return false, pool.SourceError("the bucket %s refuses to be read (%s)", s.Bucket.Name(), s.reads.Since())
	case err != nil:
		return false, pool.SourceError("the bucket %s cannot be reached (%s)", s.Bucket.Name(), s.reads.Since())
	}
	var of string
	unpack, err := b.open(content, &of)
	if err == nil && of != identity {
		err = errForeign
	}
	if err == nil {
		err = take(unpack)
	}
	if err != nil {
		return false, pool.SourceError("the bucket %s: %s is invalid (%w) and ignored: remove it", s.Bucket.Name(), key, err)
	}
	return true, nil
}

// Write puts a blob's body unless there is an object of it. Errors: the bucket failed; ctx's.
func (s *Shared) Write(ctx context.Context, b Blob, identity string, body []byte) error {
	content, err := b.pack(identity, body)
	if err != nil {
		return err
	}
	err = s.writes.Ask(ctx, func(ctx context.Context) error {
		_, err := s.Bucket.Put(ctx, b.Key(identity), content, bucket.Absent)
		return err
	})
	if errors.Is(err, bucket.ErrPrecondition) {
		return nil
	}
	return err
}

// Has reports whether there is an object of a blob. Errors: the bucket failed; ctx's.
func (s *Shared) Has(ctx context.Context, b Blob, identity string) (bool, error) {
	err := s.reads.Ask(ctx, func(ctx context.Context) error {
		_, err := s.Bucket.Stat(ctx, b.Key(identity))
		return err
	})
	if errors.Is(err, bucket.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Err returns the errors of the last request that read and of the last one that wrote, nil if it succeeded.
func (s *Shared) Err() (reading, writing error) {
	return s.reads.Failure(), s.writes.Failure()
}

// Retry allows the next requests, even if the bucket failed a moment ago.
func (s *Shared) Retry() {
	s.reads.Retry()
	s.writes.Retry()
}
