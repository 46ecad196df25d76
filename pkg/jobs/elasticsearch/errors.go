package elasticsearch

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
)

// lostPIT is the error type of a point in time that the server does not know any more.
const lostPIT = "search_context_missing_exception"

var errLostPIT = errors.New("the server lost the point in time of the search")

// performer is any request of typedapi.
type performer interface {
	Perform(ctx context.Context) (*http.Response, error)
}

// ask does a request and reads the JSON answer into answer. Every error of the server or the way to it becomes a
// [pool.SourceError] with the URL, what was being done, and a remedy.
func (s *Source) ask(ctx context.Context, doing string, request performer, answer any) error {
	res, err := request.Perform(ctx)
	if err != nil {
		return s.unanswered(ctx, doing, err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return s.refused(doing, res)
	}
	if err := json.NewDecoder(res.Body).Decode(answer); err != nil {
		if ctx.Err() != nil {
			return s.unanswered(ctx, doing, err)
		}
		if kind := res.Header.Get("Content-Type"); !strings.Contains(kind, "json") {
			return s.fault(doing, fmt.Errorf("the answer is %q, not JSON", kind), remedyURL)
		}
		return s.fault(doing, fmt.Errorf("the answer broke off or is no JSON: %w", err),
			"try again; if it stays, look for a proxy that cuts answers")
	}
	return nil
}

const remedyURL = "check that the URL, with its path, leads to Elasticsearch and not to a proxy's page"

// unanswered explains a request without an answer.
func (s *Source) unanswered(ctx context.Context, doing string, err error) error {
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, cause)
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // without the client's own words
	}
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var network net.Error
	switch text := err.Error(); {
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || errors.As(err, &network) && network.Timeout():
		return s.fault(doing, errors.New("no answer in time"), "check the server's load, or ask for a shorter time range")
	case errors.As(err, &unknown) || errors.As(err, &hostname) || errors.As(err, &invalid):
		return s.fault(doing, err, "check the data source's TLS settings and the server's certificate")
	case strings.Contains(text, "not Elasticsearch"):
		return s.fault(doing, errors.New("what answers is not Elasticsearch"), remedyURL)
	default:
		return s.fault(doing, err, "check that the server runs and that the URL, the network and the proxy settings are "+
			"right")
	}
}

// refused explains an answer with an error status.
func (s *Source) refused(doing string, res *http.Response) error {
	const enough = 64 << 10
	body, _ := io.ReadAll(io.LimitReader(res.Body, enough)) // half an explanation is better than none
	var answer struct{ Error reason }
	_ = json.Unmarshal(body, &answer) // a proxy's page has none
	why := answer.Error
	if len(why.RootCause) > 0 {
		why = why.RootCause[0]
	}
	if why.Type == lostPIT {
		return s.lost()
	}
	problem := statusError{res.StatusCode, res.Status}
	if text := why.String(); text != "" && res.StatusCode != http.StatusUnauthorized {
		problem.text += ": " + text
	}
	remedy := "look into the server's log"
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		remedy = "check user and password, or the API key, in the data source's settings"
	case res.StatusCode == http.StatusForbidden:
		remedy = "give the user or API key the rights read and view_index_metadata on " + s.index
	case res.StatusCode == http.StatusNotFound && why.Type != "":
		remedy = "check jobsIndex and jobsEpochIndex (" + s.index + ")"
	case res.StatusCode == http.StatusNotFound || res.StatusCode < 400:
		remedy = remedyURL
	case res.StatusCode == http.StatusTooManyRequests:
		remedy = "the server is overloaded: try again later, or ask for a shorter time range"
	case res.StatusCode >= 502 && res.StatusCode <= 504:
		remedy = "the server or the proxy before it is not ready: try again later"
	}
	return s.fault(doing, problem, remedy)
}

func (s *Source) lost() error {
	return s.fault("searching job ads", errLostPIT, "try again; if it stays, look for nodes of the cluster that restart")
}

func (s *Source) fault(doing string, problem error, remedy string) error {
	return pool.SourceError("Elasticsearch at %s: %s: %w: %s", s.shown, doing, problem, remedy)
}

// statusError is an answer with an error status.
type statusError struct {
	code int
	text string
}

func (e statusError) Error() string { return e.text }

// String is the reason as far as it fits a message, without the user it names.
func (r reason) String() string {
	const most = 300
	text := strings.Trim(r.Type+": "+r.Reason, ": ")
	if r.Type == "security_exception" {
		text, _, _ = strings.Cut(text, " for ")
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
