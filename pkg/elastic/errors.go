package elastic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// LostPIT is the error type of a point in time that the server does not know anymore.
const LostPIT = "search_context_missing_exception"

// ErrLostPIT is wrapped by errors of a search whose point in time the server does not know anymore.
var ErrLostPIT = errors.New("the server lost the point in time of the search")

// ErrTooLong is wrapped by errors of answers with more bytes than are read. A smaller page may be short enough.
var ErrTooLong = errors.New("the answer is too long")

// ErrShards is wrapped by errors of answers that shards are missing from.
var ErrShards = errors.New("shards failed")

// Elsewhere reports whether a search failed because a node went away: the same search, with a point in time of its own,
// finds copies of that node's data, if there are any.
func Elsewhere(err error) bool {
	return errors.Is(err, ErrLostPIT) || errors.Is(err, ErrShards) || IsStatus(err, http.StatusServiceUnavailable)
}

// IsStatus reports whether an error is an answer with a status.
func IsStatus(err error, code int) bool {
	var status StatusError
	return errors.As(err, &status) && status.Code == code
}

// IsExisting reports whether an error is the refusal to make an index that exists.
func IsExisting(err error) bool {
	var status StatusError
	return errors.As(err, &status) && strings.Contains(status.Text, "resource_already_exists_exception")
}

// asEncodingJSON are the options for answers, which jsonv2 reads three times as fast as encoding/json.
var asEncodingJSON = jsonv2.JoinOptions(jsonv2.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true),
	jsontext.AllowInvalidUTF8(true))

// Ask does a request of typedapi and reads the JSON answer into answer, or ignores it if answer is nil. Every error of
// the server or the way to it becomes a [pool.SourceError] with the URL, the operation, and a remedy. Meanwhile ctx's
// computation holds no slot.
func (c *Client) Ask(ctx context.Context, doing string, request interface {
	Perform(ctx context.Context) (*http.Response, error)
}, answer any) error {
	return parallel.Idle(ctx, func() error {
		res, err := request.Perform(ctx)
		if err != nil {
			return c.Unanswered(ctx, doing, err)
		}
		defer res.Body.Close()
		if res.StatusCode >= 300 {
			return c.refused(doing, res)
		}
		if answer == nil {
			answer = new(any)
		}
		body := &io.LimitedReader{R: res.Body, N: c.MostAnswer + 1}
		err = jsonv2.UnmarshalDecode(jsontext.NewDecoder(body, asEncodingJSON), answer)
		switch kind := res.Header.Get("Content-Type"); {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return c.Unanswered(ctx, doing, err)
		case body.N <= 0:
			return c.Fault(doing, fmt.Errorf("%w: more than %d MB", ErrTooLong, c.MostAnswer>>20),
				"look for documents with long texts, or ask for a shorter time range")
		case !strings.Contains(kind, "json"):
			return c.Fault(doing, fmt.Errorf("the answer is %q, not JSON", kind), remedyURL)
		}
		return c.Fault(doing, fmt.Errorf("the response is incomplete or not JSON: %w", err),
			"try again; if it stays, look for a proxy that cuts answers")
	})
}

const remedyURL = "check that the URL, with its path, leads to Elasticsearch and not to a proxy's page"

// Unanswered explains a request without an answer.
func (c *Client) Unanswered(ctx context.Context, doing string, err error) error {
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the client's own words
	}
	var untrusted *tls.CertificateVerificationError
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || errors.As(err, &network) && network.Timeout():
		return c.Fault(doing, errors.New("no answer in time"), "check the server's load, or ask for a shorter time range")
	case errors.As(err, &untrusted):
		return c.Fault(doing, err, "check the data source's TLS settings and the server's certificate")
	case errors.Is(err, errStranger):
		return c.stranger(ctx, doing)
	default:
		return c.Fault(doing, err, "check that the server runs and that the URL, the network and the proxy settings are "+
			"right")
	}
}

// explanation is the body of an answer with an error status. Half of it is better than none.
func explanation(res *http.Response) []byte {
	body, _ := io.ReadAll(io.LimitReader(res.Body, pool.MostComplaint))
	return body
}

// refused explains an answer with an error status.
func (c *Client) refused(doing string, res *http.Response) error {
	why := reasonOf(explanation(res), res.Header.Get("Content-Type"))
	if len(why.RootCause) > 0 {
		why = why.RootCause[0]
	}
	if why.Type == LostPIT {
		return c.Lost(doing)
	}
	problem := StatusError{res.StatusCode, res.Status}
	if text := why.String(); text != "" && res.StatusCode != http.StatusUnauthorized {
		problem.Text += ": " + text
	}
	remedy := "look into the server's log"
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		remedy = "check user and password, or the API key, in the data source's settings"
	case res.StatusCode == http.StatusForbidden:
		remedy = c.remedies.Forbidden
	case res.StatusCode == http.StatusNotAcceptable:
		remedy = "Elasticsearch before 7.11 is not supported: upgrade it, or import job ads into a job file with " +
			"`gpureports import-jobs`"
	case res.StatusCode == http.StatusNotFound && why.Type != "":
		remedy = c.remedies.NotFound
	case res.StatusCode == http.StatusNotFound || res.StatusCode < 400:
		remedy = remedyURL
	case res.StatusCode == http.StatusTooManyRequests:
		remedy = "the server is overloaded: try again later, or ask for a shorter time range"
	case res.StatusCode >= 502 && res.StatusCode <= 504:
		remedy = "the server or the proxy before it is not ready: try again later"
	}
	return c.Fault(doing, problem, remedy)
}

// reasonOf is why the server refused something: an object, or a text, in JSON, or a plain text. A proxy's page has
// none.
func reasonOf(body []byte, kind string) (why Reason) {
	var answer struct{ Error json.RawMessage }
	if json.Unmarshal(body, &answer) == nil {
		if json.Unmarshal(answer.Error, &why) != nil {
			_ = json.Unmarshal(answer.Error, &why.Reason) // otherwise there is none
		}
		return why
	}
	if strings.HasPrefix(kind, "text/plain") {
		first, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
		why.Reason = strings.ToValidUTF8(first, "")
	}
	return why
}

// stranger explains an answer without Elasticsearch's product header.
func (c *Client) stranger(ctx context.Context, doing string) error {
	what, remedy := errStranger, remedyURL
	if request, err := http.NewRequestWithContext(ctx, http.MethodGet, "", nil); err == nil {
		if res, err := c.transport.Perform(request); err == nil {
			text := strings.ToLower(string(explanation(res)))
			_ = res.Body.Close()
			switch {
			case strings.Contains(text, "opensearch"):
				what = errors.New("this is OpenSearch")
				remedy = "it is not supported: import job ads into a job file with `gpureports import-jobs`, or let adstash " +
					"write into Elasticsearch"
			case strings.Contains(text, "you know, for search"):
				what = errors.New("a proxy removes the header X-Elastic-Product from the server's answers")
				remedy = "let it pass"
			}
		}
	}
	return c.Fault(doing, what, remedy)
}

// Lost is the error of a search whose point in time is gone.
func (c *Client) Lost(doing string) error {
	return c.Fault(doing, ErrLostPIT, "try again; if it stays, look for nodes of the cluster that restart")
}

// Fault is a [pool.SourceError] of the server: the operation, the problem, and a remedy.
func (c *Client) Fault(doing string, problem error, remedy string) error {
	return pool.SourceError("Elasticsearch at %s: %s: %w: %s", c.Shown, doing, problem, remedy)
}

// Unreadable is the error of an answer in JSON with unexpected content.
func (c *Client) Unreadable(doing string, err error) error {
	return c.Fault(doing, fmt.Errorf("the answer cannot be read: %w", err), "check the server's version")
}

// StatusError is an answer with an error status.
type StatusError struct {
	Code int
	Text string
}

func (e StatusError) Error() string { return e.Text }

// String is the reason as far as it fits a message, without the user it names.
func (r Reason) String() string {
	const most = 300
	for r.Reason == "" && r.CausedBy != nil { // such as of shards that are missing
		r = *r.CausedBy
	}
	text := strings.Trim(r.Type+": "+r.Reason, ": ")
	if r.Type == "security_exception" {
		text, _, _ = strings.Cut(text, " for ")
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
