// Package bucket reads and writes the objects of an S3 bucket: Ceph's gateway, Amazon's service, or any other. Requests
// are bounded in time and number, and retried if the server or the network fails for a while. Keys of objects are
// relative to the bucket's prefix.
package bucket

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // S3's checksum of a body
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

// Bucket is an open bucket, or the part of one below a prefix. It is safe for concurrent use.
type Bucket struct {
	Counts  *Counts         // what the bucket has been asked so far
	Breaker *remote.Breaker // for all who read data that they cannot get elsewhere
	place   place
	client  *minio.Core
	running *semaphore.Weighted
}

// Object is the server's description of an object.
type Object struct {
	Key      string // without the bucket's prefix
	Size     int64
	ETag     string // changes with the content; without quotes
	Modified time.Time
}

// Open returns a bucket. It does not contact the server yet. Errors: those of Options.Check.
func Open(o Options) (*Bucket, error) {
	p, err := o.place()
	if err != nil {
		return nil, err
	}
	counts := &Counts{inner: newTransport(p)}
	keys := credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if !o.OwnKeys() {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{},
			&credentials.FileAWSCredentials{},
			&machineKeys{IAM: credentials.IAM{Client: &http.Client{Timeout: 5 * time.Second}}}})
	}
	region, lookup := o.Region, minio.BucketLookupDNS
	if o.PathStyle {
		lookup = minio.BucketLookupPath
	}
	if region == "" && o.Endpoint != "" {
		region = "us-east-1"
	}
	client, err := minio.NewCore(p.endpoint.Host, &minio.Options{Creds: keys, Secure: p.endpoint.Scheme == "https",
		Transport: counts, Region: region, BucketLookup: lookup, MaxRetries: 1})
	if err != nil {
		return nil, pool.BadQuery("the bucket %s cannot be opened: %w", p.name(), err)
	}
	b := &Bucket{place: p, client: client, Counts: counts, running: semaphore.NewWeighted(parallelRequests)}
	b.Breaker = b.NewBreaker(20*time.Second, 5*time.Second)
	return b, nil
}

// Name returns s3://bucket/prefix, without a slash at its end.
func (b *Bucket) Name() string { return b.place.name() }

// machineKeys provide the keys of a machine at Amazon. If there is none, its service of keys is not asked again for a
// minute: each request to the bucket would wait for it.
type machineKeys struct {
	credentials.IAM
	failed time.Time
	err    error
}

// RetrieveWithCredContext is called under a lock of the client's.
func (m *machineKeys) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	if m.err != nil && time.Since(m.failed) < time.Minute {
		return credentials.Value{}, m.err
	}
	var keys credentials.Value
	keys, m.err = m.IAM.RetrieveWithCredContext(c)
	m.failed = time.Now()
	return keys, m.err
}

// HasKeys reports whether there are keys to sign requests with: those of the options, of the environment, or of the
// machine, which takes seconds if it has none.
func (b *Bucket) HasKeys() bool {
	keys, err := b.client.GetCreds()
	return err == nil && keys.AccessKeyID != ""
}

// Close closes connections that are not in use.
func (b *Bucket) Close() { b.Counts.inner.CloseIdleConnections() }

// List returns the objects whose keys begin with a prefix, ascending by key.
func (b *Bucket) List(ctx context.Context, prefix string) (objects []Object, err error) {
	err = b.do(ctx, "listing", 0, func(ctx context.Context) error {
		objects = nil
		seen := map[string]bool{}
		for o := range b.client.ListObjectsIter(ctx, b.place.bucket,
			minio.ListObjectsOptions{Prefix: b.place.prefix + prefix, Recursive: true}) {
			if o.Err != nil {
				return o.Err
			}
			if seen[o.Key] {
				return &failure{kind: errRepeats, remedy: "the server, or something in between, does not continue a listing " +
					"where its last page ended (continuation-token): update it, or ask its operator"}
			}
			seen[o.Key] = true
			if objects = append(objects, b.object(o)); len(objects) > pool.MostObjects {
				return &failure{kind: ErrDenied, detail: fmt.Sprintf("there are more than %d objects", pool.MostObjects),
					remedy: "give the data a prefix of their own"}
			}
		}
		return ctx.Err()
	})
	return objects, err
}

func (b *Bucket) object(o minio.ObjectInfo) Object {
	return Object{strings.TrimPrefix(o.Key, b.place.prefix), o.Size, strings.Trim(o.ETag, `"`), o.LastModified}
}

// Stat returns the server's description of an object, ErrNotFound if there is none.
func (b *Bucket) Stat(ctx context.Context, key string) (object Object, err error) {
	err = b.do(ctx, "looking at "+key, 0, func(ctx context.Context) error {
		info, err := b.client.StatObject(ctx, b.place.bucket, b.place.prefix+key, minio.StatObjectOptions{})
		object = b.object(info)
		return err
	})
	return object, err
}

// Get returns an object as a whole. ErrNotFound: there is none. One of more than [pool.MostObject] bytes is an error.
func (b *Bucket) Get(ctx context.Context, key string) (data []byte, object Object, err error) {
	err = b.do(ctx, "reading "+key, 0, func(ctx context.Context) error {
		data, object, err = b.get(ctx, key, minio.GetObjectOptions{}, pool.MostObject)
		return err
	})
	return data, object, err
}

// GetRange returns n bytes of an object from a byte onward. If etag is not "", the object must be of that ETag,
// otherwise the error is ErrPrecondition. The error is the same if the object ends before.
func (b *Bucket) GetRange(ctx context.Context, key, etag string, from, n int64) (data []byte, err error) {
	if n <= 0 {
		return nil, ctx.Err()
	}
	options := minio.GetObjectOptions{}
	_ = options.SetRange(from, from+n-1) // it is one
	if etag != "" {
		_ = options.SetMatchETag(etag) // it is not empty
	}
	err = b.do(ctx, "reading "+key, n, func(ctx context.Context) error {
		var object Object
		data, object, err = b.get(ctx, key, options, n)
		switch {
		case err != nil && minio.ToErrorResponse(err).StatusCode == http.StatusRequestedRangeNotSatisfiable:
			return &failure{kind: ErrPrecondition}
		case err != nil:
			return err
		case etag != "" && object.ETag != etag, int64(len(data)) < n:
			return &failure{kind: ErrPrecondition}
		}
		return nil
	})
	return data, err
}

// get reads a body to its end. A body that is shorter than announced is an error, and one with more than most bytes.
func (b *Bucket) get(ctx context.Context, key string, o minio.GetObjectOptions, most int64) ([]byte, Object, error) {
	body, info, header, err := b.client.GetObject(ctx, b.place.bucket, b.place.prefix+key, o)
	if err != nil {
		return nil, Object{}, err
	}
	defer body.Close()
	if header.Get("Content-Range") == "" && o.Header().Get("Range") != "" {
		return nil, Object{}, &failure{kind: ErrDenied, detail: "the server does not know ranges"}
	}
	if info.Size > most {
		return nil, Object{}, tooLong(most)
	}
	var data bytes.Buffer
	data.Grow(int(min(max(0, info.Size), 1<<26)) + bytes.MinRead)
	n, err := io.Copy(&data, io.LimitReader(body, most+1))
	if err == nil && n > most {
		err = tooLong(most)
	}
	if err != nil {
		return nil, Object{}, err
	}
	return data.Bytes(), b.object(info), nil
}

// Absent is the condition that there is no object.
const Absent = "*"

// Put puts an object in one request, so that it is there as a whole or not at all, and returns its ETag. It takes the
// place of an object with the ETag replaced, of none if that is Absent, of any if that is "". ErrPrecondition: there is
// another one. It can also mean that an earlier try arrived whose answer was lost; compare the existing object.
func (b *Bucket) Put(ctx context.Context, key string, data []byte, replaced string) (etag string, err error) {
	options := minio.PutObjectOptions{ContentType: "application/octet-stream"}
	switch replaced {
	case "":
	case Absent:
		options.SetMatchETagExcept("*")
	default:
		options.SetMatchETag(replaced)
	}
	sum := md5.Sum(data) //nolint:gosec // S3's checksum of a body
	err = b.do(ctx, "writing "+key, int64(len(data)), func(ctx context.Context) error {
		info, err := b.client.PutObject(ctx, b.place.bucket, b.place.prefix+key, bytes.NewReader(data), int64(len(data)),
			base64.StdEncoding.EncodeToString(sum[:]), "", options)
		etag = info.ETag
		return err
	})
	return etag, err
}

// Delete removes an object. It is not an error if there is none.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	err := b.do(ctx, "removing "+key, 0, func(ctx context.Context) error {
		return b.client.RemoveObject(ctx, b.place.bucket, b.place.prefix+key, minio.RemoveObjectOptions{})
	})
	if errors.Is(err, ErrNotFound) { // as some servers answer if two remove it at the same time
		return nil
	}
	return err
}
