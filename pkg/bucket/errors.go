package bucket

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"

	"github.com/minio/minio-go/v7"

	"github.com/chtc/gpureports/pkg/pool"
)

// Errors of a Bucket, for errors.Is. All are pool.SourceErrors that name the bucket, and never hold a key.
var (
	// ErrNotFound: there is no object of the key.
	ErrNotFound = errors.New("the object does not exist")
	// ErrPrecondition: the object is not as the request wanted it: changed, removed, or there already.
	ErrPrecondition = errors.New("the object has changed or already exists")
	// ErrUnreachable: the server did not answer as a server does, again and again.
	ErrUnreachable = errors.New("it cannot be reached")
	// ErrDenied: the server refuses, or there is no such bucket.
	ErrDenied  = errors.New("the server refuses")
	errRepeats = errors.New("the listing repeats itself")
)

// failure is one of the errors above, with details from the server or the network.
type failure struct {
	kind   error
	detail string
	retry  bool
	remedy string // "": that of the kind
}

func (f *failure) Error() string {
	if f.detail == "" {
		return f.kind.Error()
	}
	return f.kind.Error() + " (" + f.detail + ")"
}

func (f *failure) Unwrap() error { return f.kind }

// tooLong is the failure of an answer that has more bytes than it may have.
func tooLong(most int64) *failure {
	return &failure{kind: ErrDenied, detail: fmt.Sprintf("an answer has more than %d bytes", most),
		remedy: "check that the endpoint is an S3 server, and the size of the object"}
}

// plain is a code of S3 or a name of a region. No other text of a server is repeated, because it could contain a key.
var plain = regexp.MustCompile(`^[A-Za-z0-9-]{1,60}$`)

// classify finds the kind of a client's error.
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
	if !plain.MatchString(detail) {
		detail = http.StatusText(answer.StatusCode)
	}
	if remedy := remedyOf(&answer); remedy != "" {
		return &failure{kind: ErrDenied, detail: detail, remedy: remedy}
	}
	switch {
	case answer.Code == minio.NoSuchKey,
		answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket:
		return &failure{kind: ErrNotFound}
	case answer.StatusCode == http.StatusPreconditionFailed, answer.Code == minio.PreconditionFailed:
		return &failure{kind: ErrPrecondition}
	case answer.StatusCode == http.StatusConflict: // two conditional requests met: the other one is not done yet
		return &failure{kind: ErrPrecondition, retry: true}
	case answer.StatusCode >= 500, answer.StatusCode == http.StatusTooManyRequests,
		answer.StatusCode == http.StatusRequestTimeout, answer.Code == "SlowDown", answer.Code == "RequestTimeout",
		answer.Code == "BadDigest":
		return &failure{kind: ErrUnreachable, detail: detail, retry: true}
	}
	return &failure{kind: ErrDenied, detail: detail}
}

// remedyOf says what to do about a refusal for a known reason; "" for others.
func remedyOf(answer *minio.ErrorResponse) string {
	switch answer.Code {
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "TemporaryRedirect", "IllegalLocationConstraintException",
		"InvalidRegion", "AuthorizationQueryParametersError":
		if plain.MatchString(answer.Region) {
			return "the bucket is in the region " + answer.Region + ": set bucketRegion to it"
		}
		return "the server wants another region: set bucketRegion to that of the bucket"
	case "RequestTimeTooSkewed", "RequestExpired":
		return "the clock of this machine and that of the server differ too much: keep both with NTP"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired":
		return "the access key or the secret key is wrong or has expired: correct bucketAccessKey and bucketSecretKey"
	case minio.NoSuchBucket:
		return "there is no such bucket: check its name"
	case "NotImplemented":
		return "the server does not support a request that is needed (listing by list-type=2, conditional writes): use a " +
			"server that has it, such as Ceph or MinIO"
	}
	return ""
}

// network finds the kind of an error that did not come from a server. Texts of unknown errors are not repeated: they
// may contain addresses, which viewers need not know, or the answer of a wrong server, to which the access key was
// sent.
func network(err error) *failure {
	unreachable := func(detail string, retry bool) *failure {
		return &failure{kind: ErrUnreachable, detail: detail, retry: retry}
	}
	var timeout net.Error
	var untrusted *tls.CertificateVerificationError
	var operation *net.OpError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &untrusted):
		return unreachable("its certificate is not trusted: "+untrusted.Err.Error()+"; set the CA that signed it", false)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return unreachable("no answer in time", true)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return unreachable("it closed the connection", true)
	case errors.As(err, &lookup):
		return unreachable(lookup.Err, true)
	case errors.As(err, &operation):
		inner := operation.Err
		for errors.As(inner, &operation) { // one that went through a proxy
			inner = operation.Err
		}
		return unreachable(inner.Error(), true)
	case errors.Is(err, http.ErrSchemeMismatch):
		return unreachable("it speaks HTTP, not HTTPS", false)
	}
	return unreachable("it closes connections, or is not an S3 server", true)
}

// remedies of errors that have none of their own.
var remedies = map[error]string{
	ErrUnreachable: "check its endpoint, and the network to it",
	ErrDenied:      "check its name, the keys and their permissions",
}

// explain makes an error fit for a user.
func (b *Bucket) explain(doing string, err error) error {
	f := classify(err)
	if remedy := cmp.Or(f.remedy, remedies[f.kind]); remedy != "" {
		return pool.SourceError("the bucket %s: %s: %w: %s", b.Name(), doing, f, remedy)
	}
	return pool.SourceError("the bucket %s: %s: %w", b.Name(), doing, f)
}
