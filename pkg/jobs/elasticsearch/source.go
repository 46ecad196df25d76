// Package elasticsearch looks job ads up in the indexes that adstash fills, of either schema or a mixture.
package elasticsearch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	client "github.com/elastic/go-elasticsearch/v8"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/count"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/info"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/search"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/sortorder"
	"golang.org/x/sync/semaphore"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Config says where the job ads are.
type Config struct {
	// URL of the server, with a path where a proxy wants one: https://host:9200/prefix. Credentials in it are used
	// for basic authentication and never shown.
	URL string
	// Transport does the requests: authentication, TLS, headers and proxies are its own. Nil = Go's default.
	Transport http.RoundTripper
	// Index names what to search: indexes, aliases or patterns, separated by commas.
	Index string
	// EpochIndex names further indexes, those of the epoch ads; empty = none. What an ad is, its content tells.
	EpochIndex string
	// Timeout is the longest that a lookup may take; 0 = 30 s. Of the time until the context's deadline a lookup uses
	// three quarters at most: the caller can still answer without job ads.
	Timeout time.Duration
}

// Source is a server with job ads.
type Source struct {
	es      *client.BaseClient // with the requests of typedapi: its TypedClient would link all of the API, 27 MB
	shown   string             // the URL without credentials
	index   string             // all index expressions, separated by commas
	timeout time.Duration
	retry   *retrying
	maxAds  int64
	page    int

	asking   *semaphore.Weighted // of who asks for the mapping: mapping and mappedAt are its own
	mapping  fields
	mappedAt time.Time
}

// New checks the configuration; the server is first asked by a lookup.
func New(config Config) (*Source, error) {
	address, err := url.Parse(config.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, pool.BadQuery("the URL of Elasticsearch is not usable: give one such as " +
			"https://elasticsearch.example.org:9200 in the data source's settings")
	}
	var names []string
	for _, name := range strings.Split(config.Index+","+config.EpochIndex, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	index := strings.Join(names, ",")
	if index == "" || strings.ContainsAny(index, "/\\?#\"<>| ") {
		return nil, pool.BadQuery("the index of the job ads (%q) is not usable: give names, aliases or patterns such as "+
			"htcondor or adstash-*, separated by commas, as jobsIndex", index)
	}
	transport := config.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	retry := &retrying{next: transport, first: firstPause}
	es, err := client.NewBaseClient(client.Config{
		Addresses:    []string{config.URL},
		Transport:    retry,
		DisableRetry: true, // retrying knows the deadline
	})
	if err != nil {
		return nil, pool.BadQuery("the URL of Elasticsearch is not usable: check it in the data source's settings")
	}
	shown := url.URL{Scheme: address.Scheme, Host: address.Host, Path: strings.TrimRight(address.Path, "/")}
	return &Source{es: es, shown: shown.String(), index: index, timeout: cmp.Or(config.Timeout, 30*time.Second),
		retry: retry, maxAds: 500_000, page: 5000, asking: semaphore.NewWeighted(1)}, nil
}

// limited returns a context with the time that a lookup may take.
func (s *Source) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := jobs.Limited(ctx)
	limited, cancelOwn := context.WithTimeout(ctx, s.timeout)
	return limited, func() {
		cancelOwn()
		cancel()
	}
}

// Close implements [jobs.Source]. Idle connections are the transport's.
func (s *Source) Close() error { return nil }

// Newest implements [jobs.Source].
func (s *Source) Newest(ctx context.Context) (time.Time, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	return s.newest(ctx)
}

func (s *Source) newest(ctx context.Context) (time.Time, error) {
	mapping, err := s.fields(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var newest time.Time
	for _, indexes := range mapping.recordTimes { // one search for each type: different types do not sort together
		var page page
		descending := types.SortOptions{SortOptions: map[string]types.FieldSort{mapping.recordTime: {Order: &sortorder.Desc}}}
		request := search.New(s.es).Index(indexes).Size(1).TrackTotalHits(false).Sort(descending).
			Source_(types.SourceFilter{Includes: sourceNames})
		if err := s.ask(ctx, "looking for the newest job ad", request, &page); err != nil {
			return time.Time{}, err
		}
		for _, hit := range page.Hits.Hits {
			if ad, err := jobs.ParseAd(hit.Source); err == nil && ad.RecordTime.After(newest) {
				newest = ad.RecordTime
			}
		}
	}
	return newest, nil
}

// Health implements [jobs.Source].
func (s *Source) Health(ctx context.Context) (jobs.Health, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	var server struct {
		Version struct{ Number string }
	}
	var status statusError
	if err := s.ask(ctx, "asking for the version", info.New(s.es), &server); errors.As(err, &status) &&
		status.code == http.StatusForbidden {
		server.Version.Number = "(version hidden)" // it is a right of its own, which nothing else needs
	} else if err != nil {
		return jobs.Health{}, err
	}
	var found struct {
		Count  int64
		Shards shards `json:"_shards"`
	}
	if err := s.ask(ctx, "counting job ads", count.New(s.es).Index(s.index), &found); err != nil {
		return jobs.Health{}, err
	}
	newest, err := s.newest(ctx)
	if err != nil {
		return jobs.Health{}, err
	}
	health := jobs.Health{Store: fmt.Sprintf("Elasticsearch %s at %s, index %s", server.Version.Number, s.shown, s.index),
		Ads: found.Count, Newest: newest}
	if found.Shards.Failed > 0 {
		health.Notices = append(health.Notices, s.shardNotice(found.Shards))
	}
	return health, nil
}

// page is an answer to a search, as far as it is used.
type page struct {
	PitID    string `json:"pit_id"`
	TimedOut bool   `json:"timed_out"`
	Shards   shards `json:"_shards"`
	Hits     struct {
		Hits []struct {
			Source json.RawMessage   `json:"_source"`
			Sort   []json.RawMessage `json:"sort"`
		}
	}
}

type shards struct {
	Total, Failed int
	Failures      []struct {
		Index  string
		Reason reason
	}
}

type reason struct {
	Type, Reason string
	RootCause    []reason `json:"root_cause"`
}

func (s *Source) shardNotice(sh shards) string {
	why := "no reason given"
	if len(sh.Failures) > 0 {
		why = fmt.Sprintf("index %s: %s", sh.Failures[0].Index, sh.Failures[0].Reason)
	}
	return fmt.Sprintf("Elasticsearch at %s: %d of %d shards failed (%s): job ads may be missing. Check the cluster's "+
		"health.", s.shown, sh.Failed, sh.Total, why)
}
