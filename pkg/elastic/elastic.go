// Package elastic is a client of Elasticsearch: it repeats requests while the server is busy, and its errors name the
// operation and a remedy.
package elastic

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

// Client is a server, for the requests of typedapi. (The clients of go-elasticsearch compile all of the API, a quarter
// of a build without a cache.)
type Client struct {
	transport elastictransport.Interface
	remedies  Remedies

	Shown      string         // the URL without credentials
	Retries    *remote.Policy // of requests
	MostAnswer int64          // bytes of an answer that are read
}

// Remedies are the remedies for answers that depend on the user of the requests.
type Remedies struct {
	Forbidden string // if a right is missing
	NotFound  string // if an index is missing
}

// New checks the URL; it does not contact the server yet. Credentials in the URL are used for basic authentication and
// never shown. The transport does the requests: authentication, TLS, headers and proxies are its own; nil is Go's
// default. Errors are pool.BadQuery.
func New(address string, transport http.RoundTripper, remedies Remedies) (*Client, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return nil, pool.BadQuery("the URL of Elasticsearch is not usable: give one such as " +
			"https://elasticsearch.example.org:9200 in the data source's settings")
	}
	if transport == nil {
		transport = http.DefaultTransport
	}
	retry := &retrying{next: transport, policy: retries}
	parsed.Path = strings.TrimRight(parsed.Path, "/")
	es, err := elastictransport.NewClient(elastictransport.WithURLs(parsed), elastictransport.WithTransport(retry),
		elastictransport.WithDisableRetry()) // retrying knows the deadline
	if err != nil {
		return nil, pool.BadQuery("the URL of Elasticsearch is not usable: check it in the data source's settings")
	}
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}
	return &Client{transport: es, Shown: shown.String(), remedies: remedies, Retries: &retry.policy,
		MostAnswer: pool.MostHits}, nil
}

var errStranger = errors.New("the response is not from Elasticsearch")

// Perform sends a request of typedapi. Errors: errStranger if the answer lacks the header that Elasticsearch sets.
func (c *Client) Perform(req *http.Request) (*http.Response, error) {
	res, err := c.transport.Perform(req)
	if err == nil && res.StatusCode < 300 && res.Header.Get("X-Elastic-Product") != "Elasticsearch" {
		_ = res.Body.Close()
		return nil, errStranger
	}
	return res, err
}

// Shards is the state of the shards that an answer was made from.
type Shards struct {
	Total, Failed int
	Failures      []Failure
}

// Failure is why a shard failed, or a remote cluster as a whole.
type Failure struct {
	Cluster string `json:"-"` // the name of a cluster; "" if a shard failed
	Index   string
	Reason  Reason
}

// Clusters are the remote clusters that an answer was made from.
type Clusters struct {
	Total, Skipped, Failed, Partial int
	Details                         map[string]struct {
		Status   string
		Failures []Failure
		Shards   *Shards `json:"_shards"`
	}
}

// missing returns the failures of clusters that an answer lacks. One without a matching shard has nothing to add.
func (c *Clusters) missing() (failures []Failure) {
	for _, name := range slices.Sorted(maps.Keys(c.Details)) {
		of := c.Details[name]
		if !slices.Contains([]string{"skipped", "failed", "partial"}, of.Status) ||
			len(of.Failures) == 0 && of.Shards != nil && of.Shards.Failed == 0 && of.Status == "skipped" {
			continue
		}
		failure := Failure{Reason: Reason{Type: of.Status, Reason: "no reason given"}}
		if len(of.Failures) > 0 {
			failure.Reason = of.Failures[0].Reason
		}
		failure.Cluster = name
		failures = append(failures, failure)
	}
	if c.Details == nil && c.Skipped+c.Failed > 0 { // older servers name none
		failures = append(failures, Failure{Cluster: fmt.Sprintf("%d of %d", c.Skipped+c.Failed, c.Total),
			Reason: Reason{Type: "skipped", Reason: "no reason given"}})
	}
	return failures
}

// Complete returns an error, with numbers, if a shard failed, because the answer lacks the shard's data.
func (c *Client) Complete(doing string, s *Shards) error {
	if s.Failed == 0 {
		return nil
	}
	return c.Fault(doing, fmt.Errorf("%d of %d %w (%s), and their documents are missing", s.Failed, s.Total, ErrShards,
		s.Why()), "check the cluster's health")
}

// Why is the reason of the first failure.
func (s *Shards) Why() string {
	if len(s.Failures) == 0 {
		return "no reason given"
	}
	first := s.Failures[0]
	if first.Cluster != "" {
		return fmt.Sprintf("cluster %s: %s", first.Cluster, first.Reason)
	}
	return fmt.Sprintf("index %s: %s", first.Index, first.Reason)
}

// Reason is why the server refused something.
type Reason struct {
	Type, Reason string
	RootCause    []Reason `json:"root_cause"`
	CausedBy     *Reason  `json:"caused_by"`
}

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
		attempt := req.Clone(req.Context())
		if req.GetBody != nil {
			if attempt.Body, err = req.GetBody(); err != nil {
				return err
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
