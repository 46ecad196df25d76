// Package elasticsearch looks job ads up in the indexes that adstash fills, of either schema or a mixture.
package elasticsearch

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/core/count"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/info"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/search"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/sortorder"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Config says where the job ads are.
type Config struct {
	// URL of the server, with a path if a proxy wants one: https://host:9200/prefix. Credentials in it are used
	// for basic authentication and never shown.
	URL string
	// Transport does the requests: authentication, TLS, headers and proxies are its own. Nil = Go's default.
	Transport http.RoundTripper
	// Index names what to search: indexes, aliases or patterns, separated by commas.
	Index string
	// EpochIndex names other indexes, with the epoch ads; empty = none. An ad's kind follows from its content.
	EpochIndex string
}

// Source is a server with job ads.
type Source struct {
	es      *elastic.Client
	index   string        // all index expressions, separated by commas
	timeout time.Duration // the longest that a lookup may take
	maxAds  int64
	page    int
}

// New checks the configuration; the first request to the server comes with a lookup.
func New(config Config) (*Source, error) {
	var names []string
	for _, name := range strings.Split(config.Index+","+config.EpochIndex, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	index := strings.Join(names, ",")
	es, err := elastic.New(config.URL, config.Transport, elastic.Remedies{
		Forbidden: "give the user or API key the rights read and view_index_metadata on " + index,
		NotFound:  "check jobsIndex and jobsEpochIndex (" + index + ")",
	})
	if err != nil {
		return nil, err
	}
	if index == "" || strings.ContainsAny(index, "/\\?#\"<>| ") {
		return nil, pool.BadQuery("the index of the job ads (%q) is not usable: give names, aliases or patterns such as "+
			"htcondor or adstash-*, separated by commas, as jobsIndex", index)
	}
	return &Source{es: es, index: index, timeout: 30 * time.Second, maxAds: 500_000, page: 5000}, nil
}

func (s *Source) Newest(ctx context.Context) (time.Time, error) {
	ctx, cancel := jobs.Limited(ctx, s.timeout)
	defer cancel()
	mapping, err := s.fields(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return s.newest(ctx, mapping)
}

func (s *Source) newest(ctx context.Context, mapping fields) (newest time.Time, err error) {
	for _, indexes := range mapping.recordTimes { // one search for each type: different types do not sort together
		var page elastic.Page
		descending := types.SortOptions{SortOptions: map[string]types.FieldSort{mapping.recordTime: {Order: &sortorder.Desc}}}
		request := search.New(s.es).Index(indexes).Size(1).TrackTotalHits(false).Sort(descending).
			Source_(types.SourceFilter{Includes: sourceNames})
		if err := s.es.Ask(ctx, "looking for the newest job ad", request, &page); err != nil {
			return time.Time{}, err
		}
		for _, hit := range page.Hits.Hits {
			if ad, err := jobs.ParseAd(hit.Source); err == nil && ad.RecordTime.Time().After(newest) {
				newest = ad.RecordTime.Time()
			}
		}
	}
	return newest, nil
}

func (s *Source) Health(ctx context.Context) (jobs.Health, error) {
	ctx, cancel := jobs.Limited(ctx, s.timeout)
	defer cancel()
	var server struct {
		Version struct{ Number string }
	}
	err := s.es.Ask(ctx, "asking for the version", info.New(s.es), &server)
	if elastic.IsStatus(err, http.StatusForbidden) {
		server.Version.Number = "(version hidden)" // it is a right of its own, which nothing else needs
	} else if err != nil {
		return jobs.Health{}, err
	}
	// Count the ads, and see what can be searched.
	var found struct {
		Count  int64
		Shards elastic.Shards `json:"_shards"`
	}
	if err := s.es.Ask(ctx, "counting job ads", count.New(s.es).Index(s.index), &found); err != nil {
		return jobs.Health{}, err
	}
	mapping, err := s.fields(ctx)
	if err != nil {
		return jobs.Health{}, err
	}
	newest, err := s.newest(ctx, mapping)
	if err != nil {
		return jobs.Health{}, err
	}
	// Look for an ad that says what its run has saved.
	saves := types.BoolQuery{}
	for _, name := range spellings("JobLastCheckpointTime") {
		saves.Should = append(saves.Should, types.Query{Exists: &types.ExistsQuery{Field: name}})
	}
	var saved struct{ Count int64 }
	if err := s.es.Ask(ctx, "counting job ads with a checkpoint", count.New(s.es).Index(s.index).TerminateAfter("1").
		Query(&types.Query{Bool: &saves}), &saved); err != nil {
		return jobs.Health{}, err
	}
	store := fmt.Sprintf("Elasticsearch %s at %s, index %s", server.Version.Number, s.es.Shown, s.index)
	health := jobs.Health{Store: store, Ads: found.Count, Newest: newest, Saves: saved.Count > 0}
	if found.Shards.Failed > 0 {
		health.Notices = append(health.Notices, s.shardNotice(found.Shards))
	}
	health.Notices = append(health.Notices, s.mappingNotices(mapping)...)
	return health, nil
}

func (s *Source) shardNotice(sh elastic.Shards) string {
	return fmt.Sprintf("Elasticsearch at %s: %d of %d shards failed (%s): job ads may be missing. Check the cluster's "+
		"health.", s.es.Shown, sh.Failed, sh.Total, sh.Why())
}
