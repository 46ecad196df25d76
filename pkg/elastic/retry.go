package elastic

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/chtc/gpureports/pkg/parallel"
)

// Attempts is how often a request is sent at most.
const Attempts = 5

const firstPause = 250 * time.Millisecond

// retrying repeats requests that the server could not take at the moment (429, 502, 503), with growing pauses, as long
// as the next attempt begins before the context's deadline; otherwise the last answer stands. Requests only read, or
// put documents of given ids, so repeating them is harmless.
type retrying struct {
	next  http.RoundTripper
	first time.Duration
}

func (r *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	for attempt := 1; ; attempt++ {
		res, err := r.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		switch res.StatusCode {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable:
		default:
			return res, nil
		}
		pause := r.pause(attempt, res)
		if deadline, ok := ctx.Deadline(); attempt == Attempts || ok && time.Until(deadline) <= pause {
			return res, nil
		}
		repeated := req.Clone(ctx)
		if req.GetBody != nil {
			if repeated.Body, err = req.GetBody(); err != nil {
				return res, nil
			}
		} else if req.Body != nil && req.Body != http.NoBody {
			return res, nil
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
		_ = res.Body.Close()
		if err := parallel.Wait(ctx, pause); err != nil {
			return nil, err
		}
		req = repeated
	}
}

// pause doubles with each attempt, is spread by ±25 % so that many clients do not return together, and is at least
// what the server asks for.
func (r *retrying) pause(attempt int, res *http.Response) time.Duration {
	pause := r.first << (attempt - 1)
	pause += time.Duration((rand.Float64() - 0.5) / 2 * float64(pause))
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		pause = max(pause, time.Duration(seconds)*time.Second)
	}
	return pause
}
