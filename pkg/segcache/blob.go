// Package segcache keeps bytes that were made of one UTC day, in the plugin's own cache directory and in a bucket that
// servers share. It knows only their kind, the version of their form, and the day.
package segcache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

// Blob names an entry of the cache: a kind with its format's version, and the UTC day that it describes.
type Blob struct {
	Kind    string // lower-case letters
	Version int    // blobs of other versions are not read
	Date    int32
	Variant string // tells apart several blobs of a day: 16 hexadecimal digits, "" for the usual one
}

// blobMagic is the beginning of blobs of all kinds and versions.
const blobMagic = "gpureports "

func (b Blob) magic() string {
	return strings.TrimSuffix(fmt.Sprintf("%s%s %d %s", blobMagic, b.Kind, b.Version, b.Variant), " ") + "\n"
}

// name is the date as YYYY-MM-DD, with the variant if there is one.
func (b Blob) name() string {
	day := pool.Time(pool.Micros(b.Date) * pool.Day).Format(time.DateOnly)
	return strings.TrimSuffix(day+"-"+b.Variant, "-")
}

// Key makes the key of what is kept for a data source of all that decides what the source may read: paths, servers,
// CAs, credentials, the organization. It reveals none of them.
func Key(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// header is ahead of the compressed body, as one line of JSON.
type header struct {
	About any    `json:"about"`
	Hash  uint64 `json:"hash"` // xxHash of the body
}

var (
	// compressor and decompressor are safe for concurrent use by EncodeAll and DecodeAll.
	compressor, _ = zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(pool.MostBody))
)

// pack writes a body with a description of it.
func (b Blob) pack(about any, body []byte) ([]byte, error) {
	line, err := json.Marshal(header{about, xxhash.Sum64(body)})
	if err != nil {
		return nil, err
	}
	content := append(append([]byte(b.magic()), line...), '\n')
	return compressor.EncodeAll(body, content), nil
}

var (
	errForeign = errors.New("of another version, or foreign")

	// ErrDamaged is returned for a body that differs from the written one.
	ErrDamaged = errors.New("damaged file of the segment cache")
)

// open reads the description that pack wrote into about, and returns a function that unpacks the body. Errors of both:
// errForeign, ErrDamaged.
func (b Blob) open(content []byte, about any) (unpack func() ([]byte, error), err error) {
	rest, ours := bytes.CutPrefix(content, []byte(b.magic()))
	if !ours {
		return nil, errForeign
	}
	h := header{About: about}
	line, packed, _ := bytes.Cut(rest, []byte("\n"))
	if json.Unmarshal(line, &h) != nil {
		return nil, ErrDamaged
	}
	return func() ([]byte, error) {
		body, err := decompressor.DecodeAll(packed, nil)
		if err != nil || xxhash.Sum64(body) != h.Hash {
			return nil, ErrDamaged
		}
		return body, nil
	}, nil
}

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
