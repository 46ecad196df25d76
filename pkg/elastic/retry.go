package elastic

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/chtc/gpureports/pkg/remote"
)

// Attempts is how often a request is sent at most.
const Attempts = 5

var retries = remote.Policy{Attempts: Attempts, First: 250 * time.Millisecond, Longest: 2 * time.Second}

// retrying repeats requests that the server could not take at the moment (429, 502, 503); the last answer is returned.
// Requests only read, or put documents of given ids, so repeating them is harmless.
type retrying struct {
	next   http.RoundTripper
	policy remote.Policy
}

var errBusy = errors.New("the server is busy")

var busy = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}

func (r *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	var res *http.Response
	err := remote.Retry(req.Context(), r.policy, func() (err error) {
		attempt := req
		if res != nil {
			attempt = req.Clone(req.Context())
			if req.GetBody != nil {
				if attempt.Body, err = req.GetBody(); err != nil {
					return err
				}
			}
		}
		res, err = r.next.RoundTrip(attempt) //nolint:bodyclose // the caller closes the last answer, here the others
		repeatable := req.GetBody != nil || req.Body == nil || req.Body == http.NoBody
		if err != nil || !repeatable || !slices.Contains(busy, res.StatusCode) {
			return err
		}
		body := explanation(res) // so that the connection can be used again during the pause
		_ = res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(body))
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // a date is not a number: 0
		return &remote.Temporary{Err: errBusy, RetryAfter: time.Duration(seconds) * time.Second}
	})
	if err != nil && !errors.Is(err, errBusy) {
		return nil, err
	}
	return res, nil
}
