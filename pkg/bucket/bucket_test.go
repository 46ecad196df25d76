package bucket_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/bucket"
	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/pool"
)

func TestObjects(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	o.URL += "/a/pool/"
	b := buckettest.Open(t, o)
	require.True(t, strings.HasSuffix(b.Name(), "/a/pool"), b.Name())
	objects, err := b.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, objects)
	_, err = b.Stat(t.Context(), "x")
	require.ErrorIs(t, err, bucket.ErrNotFound)
	_, _, err = b.Get(t.Context(), "x")
	require.ErrorIs(t, err, bucket.ErrNotFound)
	require.ErrorContains(t, err, b.Name())
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	_, err = b.GetRange(t.Context(), "x", "", 0, 1)
	require.ErrorIs(t, err, bucket.ErrNotFound)
	require.NoError(t, b.Delete(t.Context(), "x"))

	data := bytes.Repeat([]byte("0123456789"), 1000)
	etag, err := b.Put(t.Context(), "date=2026-07-01/x", data, bucket.Absent)
	require.NoError(t, err)
	_, err = b.Put(t.Context(), "date=2026-07-01/x", []byte("y"), bucket.Absent)
	require.ErrorIs(t, err, bucket.ErrPrecondition)
	got, object, err := b.Get(t.Context(), "date=2026-07-01/x")
	require.NoError(t, err)
	require.Equal(t, data, got)
	require.Equal(t, []any{etag, int64(10000)}, []any{object.ETag, object.Size})
	stat, err := b.Stat(t.Context(), "date=2026-07-01/x")
	require.NoError(t, err)
	require.Equal(t, object, stat)
	got, err = b.GetRange(t.Context(), "date=2026-07-01/x", etag, 9997, 3)
	require.NoError(t, err)
	require.Equal(t, "789", string(got))
	for _, from := range []int64{9998, 10000, 20000} {
		_, err = b.GetRange(t.Context(), "date=2026-07-01/x", etag, from, 3)
		require.ErrorIs(t, err, bucket.ErrPrecondition, "from %d", from)
	}

	second, err := b.Put(t.Context(), "date=2026-07-01/x", []byte("other"), etag)
	require.NoError(t, err)
	require.NotEqual(t, etag, second)
	_, err = b.Put(t.Context(), "date=2026-07-01/x", []byte("third"), etag)
	require.ErrorIs(t, err, bucket.ErrPrecondition)
	_, err = b.GetRange(t.Context(), "date=2026-07-01/x", etag, 0, 3)
	require.ErrorIs(t, err, bucket.ErrPrecondition)
	_, err = b.Put(t.Context(), "absent", []byte("third"), etag)
	require.Error(t, err)

	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := i; n < 1203; n += 8 { // more than a page
				if _, err := b.Put(t.Context(), fmt.Sprintf("many/%04d", n), []byte("x"), ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	objects, err = b.List(t.Context(), "many/")
	require.NoError(t, err)
	require.Len(t, objects, 1203)
	require.Equal(t, "many/1202", objects[1202].Key)
	objects, err = b.List(t.Context(), "date=")
	require.NoError(t, err)
	require.Equal(t, []any{"date=2026-07-01/x", second, int64(5)}, []any{objects[0].Key, objects[0].ETag, objects[0].Size})
	require.NoError(t, b.Delete(t.Context(), "date=2026-07-01/x"))
	objects, err = b.List(t.Context(), "date=")
	require.NoError(t, err)
	require.Empty(t, objects)
}

// A temporary failure is retried with success; a lasting one is an error that names the bucket, and no key.
func TestFaults(t *testing.T) {
	s := buckettest.Start(t)
	o := s.Bucket(t)
	proxy := buckettest.NewProxy(t, s, false)
	direct := o.Endpoint
	o.Endpoint = proxy.Endpoint
	b := buckettest.Open(t, o)
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	etag, err := b.Put(t.Context(), "x", data, "")
	require.NoError(t, err)
	for name, fault := range map[string]buckettest.Fault{"busy": buckettest.Busy, "gone": buckettest.Gone,
		"cut": buckettest.Cut} {
		t.Run(name, func(t *testing.T) {
			proxy.Set(buckettest.Times(2, buckettest.Any, fault))
			requests, received := b.Counts.Requests.Load(), b.Counts.Received.Load()
			got, _, err := b.Get(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, data, got)
			if name != "gone" { // which Go's client tries again by itself
				require.EqualValues(t, 3, b.Counts.Requests.Load()-requests)
			}
			require.GreaterOrEqual(t, b.Counts.Received.Load()-received, int64(len(data)))
			proxy.Set(buckettest.Times(2, buckettest.Any, fault))
			got, err = b.GetRange(t.Context(), "x", etag, 5, 100_000)
			require.NoError(t, err)
			require.Equal(t, data[5:100_005], got)
			proxy.Set(fault)
			_, err = b.GetRange(t.Context(), "x", etag, 5, 100_000)
			require.ErrorIs(t, err, bucket.ErrUnreachable)
			requireSafe(t, b, err)
		})
	}
	t.Run("another ETag", func(t *testing.T) {
		proxy.Set(buckettest.OtherETag)
		_, err = b.GetRange(t.Context(), "x", etag, 5, 10)
		require.ErrorIs(t, err, bucket.ErrPrecondition)
	})
	t.Run("a lost answer", func(t *testing.T) {
		proxy.Set(buckettest.Times(1, buckettest.Any, buckettest.Lost))
		_, err = b.Put(t.Context(), "lost", data, bucket.Absent)
		require.ErrorIs(t, err, bucket.ErrPrecondition)
		got, _, err := b.Get(t.Context(), "lost")
		require.NoError(t, err)
		require.Equal(t, data, got)
	})
	t.Run("slow", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		proxy.Set(func(http.ResponseWriter, *http.Request, http.Handler) { <-release })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, _, err = b.Get(ctx, "x")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	t.Run("nobody there", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		o.Endpoint = "http://" + listener.Addr().String()
		b := buckettest.Open(t, o)
		_, err = b.List(t.Context(), "")
		require.ErrorIs(t, err, bucket.ErrUnreachable)
		requireSafe(t, b, err)
		require.ErrorContains(t, err, "connection refused")
		require.NotContains(t, err.Error(), listener.Addr().String())
	})
	o.Endpoint = direct
	t.Run("wrong keys", func(t *testing.T) {
		o := o
		o.SecretKey = "made-up-secret-key-that-is-wrong"
		b := buckettest.Open(t, o)
		_, err := b.List(t.Context(), "")
		require.ErrorIs(t, err, bucket.ErrDenied)
		requireSafe(t, b, err)
		require.ErrorContains(t, err, "(SignatureDoesNotMatch)")
	})
	t.Run("no such bucket", func(t *testing.T) {
		o := o
		o.URL = "s3://nobodys-bucket"
		b := buckettest.Open(t, o)
		_, err := b.List(t.Context(), "")
		require.ErrorIs(t, err, bucket.ErrDenied)
		require.ErrorContains(t, err, "s3://nobodys-bucket")
		require.ErrorContains(t, err, "(NoSuchBucket)")
		_, _, err = b.Get(t.Context(), "x")
		require.ErrorIs(t, err, bucket.ErrDenied)
	})
}

// No error repeats what a server says: it could hold what the server was sent, such as the access key and the session
// token. Addresses stay out of it, too.
func TestErrorsRepeatNothing(t *testing.T) {
	const token = "made-up-session-token"
	server := buckettest.Start(t)
	o := server.Bucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	t.Setenv("AWS_SESSION_TOKEN", token)
	lent := o
	lent.AccessKey, lent.SecretKey = "", ""
	faults := []buckettest.Fault{buckettest.Gone, buckettest.Cut, buckettest.Garbage}
	for _, status := range []int{http.StatusOK, http.StatusMovedPermanently, http.StatusBadRequest, http.StatusForbidden,
		http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusServiceUnavailable} {
		faults = append(faults, buckettest.Repeating(status))
	}
	var met atomic.Int64
	var wait sync.WaitGroup
	for _, fault := range faults {
		proxy := buckettest.NewProxy(t, server, false)
		proxy.Set(fault)
		address := strings.TrimPrefix(proxy.Endpoint, "http://")
		for _, options := range []bucket.Options{o, lent} {
			options.Endpoint = proxy.Endpoint
			b := buckettest.Open(t, options)
			for _, request := range []func() error{
				func() error { _, err := b.List(t.Context(), ""); return err },
				func() error { _, err := b.Stat(t.Context(), "x"); return err },
				func() error { _, _, err := b.Get(t.Context(), "x"); return err },
				func() error { _, err := b.GetRange(t.Context(), "x", "y", 1, 2); return err },
				func() error { _, err := b.Put(t.Context(), "x", []byte("y"), bucket.Absent); return err },
				func() error { return b.Delete(t.Context(), "x") },
			} {
				wait.Go(func() {
					err := request()
					if err == nil {
						return
					}
					met.Add(1)
					for _, secret := range []string{o.AccessKey, o.SecretKey, token, address} {
						if strings.Contains(err.Error(), secret) {
							t.Errorf("%s is in: %v", secret, err)
						}
					}
				})
			}
		}
	}
	wait.Wait()
	require.Greater(t, met.Load(), int64(10*len(faults)))
}

func requireSafe(t *testing.T, b *bucket.Bucket, err error) {
	t.Helper()
	require.ErrorContains(t, err, b.Name())
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.NotContains(t, err.Error(), buckettest.SecretKey)
	require.NotContains(t, err.Error(), buckettest.AccessKey)
}

// A server whose certificate is signed by the site's own authority is trusted only with its CA.
func TestCA(t *testing.T) {
	s := buckettest.Start(t)
	o := s.Bucket(t)
	proxy := buckettest.NewProxy(t, s, true)
	o.Endpoint = proxy.Endpoint
	_, err := buckettest.Open(t, o).List(t.Context(), "")
	require.ErrorIs(t, err, bucket.ErrUnreachable)
	require.ErrorContains(t, err, "certificate")
	o.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Server.Certificate().Raw}))
	_, err = buckettest.Open(t, o).List(t.Context(), "")
	require.NoError(t, err)
}

// Without keys those of the environment are used.
func TestKeysOfTheEnvironment(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	o.AccessKey, o.SecretKey = "", ""
	_, err := buckettest.Open(t, o).List(t.Context(), "")
	require.NoError(t, err)
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		options bucket.Options
		want    string // the name, or an error
	}{
		{bucket.Options{URL: "s3://pool-a"}, "s3://pool-a"},
		{bucket.Options{URL: "s3://pool-a//x/y/", Endpoint: "https://s3.example.com/"}, "s3://pool-a/x/y"},
		{bucket.Options{}, "the bucket must be written as s3://bucket/prefix"},
		{bucket.Options{URL: "https://pool-a/x"}, "the bucket must be written as s3://bucket/prefix"},
		{bucket.Options{URL: "s3://key:secret@pool-a"}, "the bucket must be written as s3://bucket/prefix"},
		{bucket.Options{URL: "s3://a_b"}, `"a_b" is not a bucket`},
		{bucket.Options{URL: "s3://pool-a/x/../y"}, `the prefix "x/../y" of the bucket has an empty part, or . or ..`},
		{bucket.Options{URL: "s3://pool-a", Endpoint: "s3.example.com"}, "the endpoint of the bucket must be written as"},
		{bucket.Options{URL: "s3://pool-a", Endpoint: "http://a:b@s3.example.com"}, "the endpoint of the bucket must be"},
		{bucket.Options{URL: "s3://pool-a", AccessKey: "x"}, "one of the bucket's two keys is missing"},
		{bucket.Options{URL: "s3://pool-a", CA: "x"}, "the CA of the bucket contains no certificate"},
	} {
		err := c.options.Check()
		if strings.HasPrefix(c.want, "s3://") {
			require.NoError(t, err)
			require.Equal(t, c.want, c.options.Name())
			continue
		}
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "key:secret")
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
		_, opened := bucket.Open(c.options)
		require.Equal(t, err, opened)
	}
}
