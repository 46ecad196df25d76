package bucket

import (
	"net/http"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"
)

// Two conditional requests that meet are answered 409: the object has changed or already exists, and a further try
// tells.
func TestConflict(t *testing.T) {
	f := classify(minio.ErrorResponse{StatusCode: http.StatusConflict, Code: "ConditionalRequestConflict"})
	require.ErrorIs(t, f, ErrPrecondition)
	require.True(t, f.retry)
}

// A refusal that has a reason of its own has a remedy of its own, and is not repeated.
func TestRefusals(t *testing.T) {
	b := &Bucket{name: "s3://b"}
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
