package bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"

	"github.com/minio/minio-go/v7"

	"github.com/chtc/gpureports/pkg/pool"
)

// What errors of a Bucket are, for errors.Is. All are pool.SourceErrors that name the bucket, and never hold a key.
var (
	// ErrNotFound: there is no object of the key.
	ErrNotFound = errors.New("there is no such object")
	// ErrPrecondition: the object is not as the request wanted it: changed, removed, or there already.
	ErrPrecondition = errors.New("the object is another one by now")
	// ErrUnreachable: the server did not answer as a server does, again and again.
	ErrUnreachable = errors.New("it cannot be reached")
	// ErrDenied: the server refuses, or there is no such bucket.
	ErrDenied = errors.New("the server refuses")
)

// failure is one of the errors above, with what the server or the network said.
type failure struct {
	kind   error
	detail string
	retry  bool
}

func (f *failure) Error() string {
	if f.detail == "" {
		return f.kind.Error()
	}
	return f.kind.Error() + " (" + f.detail + ")"
}

func (f *failure) Unwrap() error { return f.kind }

// plainCode is a code of S3. What else a server says is not repeated: it could repeat a key.
var plainCode = regexp.MustCompile(`^[A-Za-z0-9]{1,60}$`)

// classify says what an error of the client is.
func classify(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return network(err)
	}
	detail := answer.Code
	if !plainCode.MatchString(detail) {
		detail = http.StatusText(answer.StatusCode)
	}
	switch {
	case answer.Code == minio.NoSuchKey,
		answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket:
		return &failure{kind: ErrNotFound}
	case answer.StatusCode == http.StatusPreconditionFailed, answer.Code == minio.PreconditionFailed:
		return &failure{kind: ErrPrecondition}
	case answer.StatusCode == http.StatusConflict: // two conditional requests met: the other one is not done yet
		return &failure{ErrPrecondition, "", true}
	case answer.StatusCode >= 500, answer.StatusCode == http.StatusTooManyRequests,
		answer.StatusCode == http.StatusRequestTimeout, answer.Code == "SlowDown", answer.Code == "RequestTimeout",
		answer.Code == "BadDigest":
		return &failure{ErrUnreachable, detail, true}
	}
	return &failure{ErrDenied, detail, false}
}

// network says what an error is that no server sent.
func network(err error) *failure {
	var timeout net.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return &failure{ErrUnreachable, "its certificate is not trusted: " + untrusted.Err.Error() +
			"; set the CA that signed it", false}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return &failure{ErrUnreachable, "no answer in time", true}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{ErrUnreachable, "it closed the connection", true}
	}
	// other texts may hold addresses, which whoever sees a panel need not know, or repeat what a stranger answered, who
	// was sent the access key
	var operation *net.OpError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return &failure{ErrUnreachable, lookup.Err, true}
	case errors.As(err, &operation):
		inner := operation.Err
		for errors.As(inner, &operation) { // one that went through a proxy
			inner = operation.Err
		}
		return &failure{ErrUnreachable, inner.Error(), true}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &failure{ErrUnreachable, "it speaks HTTP, not HTTPS", false}
	}
	return &failure{ErrUnreachable, "it closes connections, or is no S3 server", true}
}

// explain makes an error fit for a user.
func (b *Bucket) explain(doing string, err error) error {
	f := classify(err)
	switch {
	case errors.Is(f.kind, ErrUnreachable):
		return pool.SourceError("the bucket %s: %s: %w: check its endpoint, and the network to it", b.name, doing, f)
	case errors.Is(f.kind, ErrDenied):
		return pool.SourceError("the bucket %s: %s: %w: check its name, its keys and what they may do", b.name, doing, f)
	}
	return pool.SourceError("the bucket %s: %s: %w", b.name, doing, f)
}
