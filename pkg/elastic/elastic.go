// Package elastic is a client of Elasticsearch: it repeats requests while the server is busy, and its errors name the
// operation and a remedy.
package elastic

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	client "github.com/elastic/go-elasticsearch/v8"

	"github.com/chtc/gpureports/pkg/pool"
)

// Client is a server, for the requests of typedapi. (The TypedClient would link all of the API, 27 MB.)
type Client struct {
	*client.BaseClient
	address  string // the URL
	shown    string // the URL without credentials
	remedies Remedies
	retry    *retrying

	mostAnswer int64 // bytes
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
	es, err := client.NewBaseClient(client.Config{
		Addresses:    []string{address},
		Transport:    retry,
		DisableRetry: true, // retrying knows the deadline
	})
	if err != nil {
		return nil, pool.BadQuery("the URL of Elasticsearch is not usable: check it in the data source's settings")
	}
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: strings.TrimRight(parsed.Path, "/")}
	return &Client{BaseClient: es, address: address, shown: shown.String(), remedies: remedies, retry: retry,
		mostAnswer: mostAnswer}, nil
}

// Shown is the URL without credentials.
func (c *Client) Shown() string { return c.shown }

// PauseFirst sets the pause before a request is repeated for the first time.
func (c *Client) PauseFirst(pause time.Duration) { c.retry.policy.First = pause }

// Bound sets how many bytes of an answer are read.
func (c *Client) Bound(bytes int64) { c.mostAnswer = bytes }

// Shards is the state of the shards that an answer was made from.
type Shards struct {
	Total, Failed int
	Failures      []struct {
		Index  string
		Reason Reason
	}
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
	return fmt.Sprintf("index %s: %s", s.Failures[0].Index, s.Failures[0].Reason)
}

// Reason is why the server refused something.
type Reason struct {
	Type, Reason string
	RootCause    []Reason `json:"root_cause"`
	CausedBy     *Reason  `json:"caused_by"`
}
