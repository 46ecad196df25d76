package bucket

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// A server that sends more than was asked for, without end or with a size that it announces, is stopped: of a part of
// an object, of a whole one, of a listing and of an error.
func TestBodiesAreBounded(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		size   string // announced
		ask    func(*Bucket) error
	}{
		"part": {http.StatusPartialContent, "", func(b *Bucket) error {
			_, err := b.GetRange(t.Context(), "o", "x", 0, 10)
			return err
		}},
		"announced part": {http.StatusPartialContent, strconv.Itoa(1 << 40), func(b *Bucket) error {
			_, err := b.GetRange(t.Context(), "o", "x", 0, 10)
			return err
		}},
		"announced object": {http.StatusOK, strconv.Itoa(pool.MostObject + 1), func(b *Bucket) error {
			_, _, err := b.Get(t.Context(), "o")
			return err
		}},
		"listing": {http.StatusOK, "", func(b *Bucket) error {
			_, err := b.List(t.Context(), "")
			return err
		}},
		"error": {http.StatusForbidden, "", func(b *Bucket) error {
			_, _, err := b.Get(t.Context(), "o")
			return err
		}},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Last-Modified", "Wed, 01 Jul 2026 00:00:00 GMT")
			if c.status == http.StatusPartialContent {
				w.Header().Set("Content-Range", "bytes 0-9/10")
			}
			if c.size != "" {
				w.Header().Set("Content-Length", c.size)
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte("<a>"))
			for block := make([]byte, 1<<20); ; {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}))
		b, err := Open(Options{URL: "s3://pool", Endpoint: server.URL, PathStyle: true, AccessKey: "k", SecretKey: "s"})
		require.NoError(t, err)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Error(t, c.ask(b), name)
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(512), name)
		server.CloseClientConnections()
		server.Close()
	}
}

// Two conditional requests that meet are answered 409: the object has changed or already exists, and a further try
// tells.
func TestConflict(t *testing.T) {
	f := classify(minio.ErrorResponse{StatusCode: http.StatusConflict, Code: "ConditionalRequestConflict"})
	require.ErrorIs(t, f, ErrPrecondition)
	require.True(t, f.retry)
}

// A refusal that has a reason of its own has a remedy of its own, and is not repeated.
func TestRefusals(t *testing.T) {
	b := &Bucket{place: place{bucket: "b"}}
	for want, answer := range map[string]minio.ErrorResponse{
		"(AuthorizationHeaderMalformed): the server wants another region: set bucketRegion": {StatusCode: 400,
			Code: "AuthorizationHeaderMalformed", Region: "<script>"},
		"the bucket is in the region eu-west-1: set bucketRegion": {StatusCode: 301, Code: "PermanentRedirect",
			Region: "eu-west-1"},
		"(RequestTimeTooSkewed): the clock of this machine": {StatusCode: 403, Code: "RequestTimeTooSkewed"},
		"(SignatureDoesNotMatch): the access key or":        {StatusCode: 403, Code: "SignatureDoesNotMatch"},
		"(InvalidAccessKeyId): the access key or":           {StatusCode: 403, Code: "InvalidAccessKeyId"},
		"(NotImplemented): the server does not support":     {StatusCode: 501, Code: "NotImplemented"},
		"(NoSuchBucket): there is no such bucket":           {StatusCode: 404, Code: "NoSuchBucket"},
		"(AccessDenied): check its name, the keys":          {StatusCode: 403, Code: "AccessDenied"},
	} {
		require.ErrorContains(t, b.explain("listing", answer), want)
		require.ErrorIs(t, classify(answer), ErrDenied)
		require.False(t, classify(answer).retry)
	}
}
