// Package elasticsearch looks job ads up in the indexes that adstash fills, of either schema or a mixture.
package elasticsearch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/core/count"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/fieldcaps"
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

// fields are the names under which the indexes hold the searched attributes. An attribute can have several: its own,
// the lower-cased one of the legacy schema, and the subfield .keyword of automatic mappings.
type fields struct {
	job     []string // keyword fields with the GlobalJobId
	machine []string // keyword fields with the StartdName
	start   []string // fields with the JobCurrentStartDate
	blind   []string // indexes with a GlobalJobId that cannot be searched

	jobTexts     []string // fields with the GlobalJobId as a text
	jobWords     []string // indexes in which it is one, in no spelling a keyword
	machineWords []string // indexes in which the StartdName is one

	ended []string // fields with the EpochWriteDate, or the CompletionDate, that hold numbers everywhere

	recordTime  string   // the field of the RecordTime
	recordTimes []string // index expressions in which it has one type each
}

// sourceNames are the names of the attributes that ads are parsed from, in all spellings: filters of the source are
// case-sensitive. The legacy schema lower-cases unknown names, capitalises those that end in Date, and knows
// RequestGpus.
var sourceNames = func() []string {
	names := []string{"RequestGpus"}
	for _, name := range jobs.Attributes {
		names = append(names, name, strings.ToLower(name))
		if stem, isDate := strings.CutSuffix(name, "Date"); isDate {
			names = append(names, stem[:1]+strings.ToLower(stem[1:])+"Date")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}()

// capabilities is the answer about fields: their types, by name.
type capabilities struct {
	Indices []string
	Fields  map[string]map[string]struct {
		Type       string
		Searchable bool
		Indices    []string
	}
}

// with returns the spellings of an attribute that have one of the types in some index.
func (c *capabilities) with(attribute string, types ...string) (found []string) {
	for _, name := range spellings(attribute) {
		if slices.ContainsFunc(types, func(t string) bool { return c.Fields[name][t].Searchable }) {
			found = append(found, name)
		}
	}
	return found
}

// without returns the indexes that have an attribute, and in no spelling one of the types.
func (c *capabilities) without(attribute string, types ...string) (left []string) {
	fit, others := map[string]bool{}, map[string]bool{}
	for _, name := range spellings(attribute) {
		for kind, field := range c.Fields[name] {
			into, indices := others, field.Indices
			if slices.Contains(types, kind) && field.Searchable {
				into = fit
			}
			if len(indices) == 0 { // the field is alike everywhere
				indices = c.Indices
			}
			for _, index := range indices {
				into[index] = true
			}
		}
	}
	maps.DeleteFunc(others, func(index string, _ bool) bool { return fit[index] })
	return slices.Sorted(maps.Keys(others))
}

// mappingNotices say in which indexes job ads cannot be looked up, or only by words.
func (s *Source) mappingNotices(mapping fields) (notices []string) {
	for _, kind := range []struct {
		indices      []string
		consequences string
	}{
		{mapping.blind, "GlobalJobId cannot be searched in %s, so that job ads in it are not found"},
		{mapping.jobWords, "GlobalJobId is a text in %s, not a keyword: its job ads are looked up by words, which misses " +
			"them if the field's analyzer is not the standard one"},
		{mapping.machineWords, "StartdName is a text in %s, not a keyword: to look job ads up by machine, those of all " +
			"machines are read"},
	} {
		if len(kind.indices) > 0 {
			notices = append(notices, fmt.Sprintf("Elasticsearch at %s: "+kind.consequences+". Reindex it with adstash's "+
				"mapping.", s.es.Shown, strings.Join(kind.indices, ", ")))
		}
	}
	return notices
}

// fields asks how the indexes map the searched attributes.
func (s *Source) fields(ctx context.Context) (fields, error) {
	const job, machine, start, recordTime = "GlobalJobId", "StartdName", "JobCurrentStartDate", "RecordTime"
	const epochDate, completionDate = "EpochWriteDate", "CompletionDate"
	var names []string
	for _, attribute := range []string{job, machine, start, recordTime, epochDate, completionDate} {
		names = append(names, spellings(attribute)...)
	}
	var answer capabilities
	if err := s.es.Ask(ctx, "asking for the mapping", fieldcaps.New(s.es).Index(s.index).Fields(names...),
		&answer); err != nil {
		return fields{}, err
	}
	if len(answer.Indices) == 0 {
		return fields{}, pool.SourceError("Elasticsearch at %s: no index matches %s: correct jobsIndex, or check that "+
			"adstash has written something", s.es.Shown, s.index)
	}
	// Sort the spellings by how they can be searched.
	keywords := []string{"keyword", "constant_keyword", "wildcard"}
	searched := append([]string{"text"}, keywords...)
	seconds := []string{"date", "long", "integer", "double"}
	numbers := append(slices.Clone(seconds), "date_nanos")
	mapping := fields{job: answer.with(job, keywords...), machine: answer.with(machine, keywords...),
		start: answer.with(start, append(numbers, keywords...)...)}
	for _, name := range append(answer.with(epochDate, numbers...), answer.with(completionDate, numbers...)...) {
		kinds := slices.Collect(maps.Keys(answer.Fields[name]))
		if !slices.ContainsFunc(kinds, func(kind string) bool { return !slices.Contains(seconds, kind) }) {
			mapping.ended = append(mapping.ended, name)
		}
	}
	mapping.jobTexts = answer.with(job, "text")
	if len(mapping.job)+len(mapping.jobTexts) == 0 {
		return fields{}, pool.SourceError("Elasticsearch at %s: index %s has no GlobalJobId that can be searched: check "+
			"that jobsIndex names adstash's indexes, or reindex them with adstash's mapping", s.es.Shown, s.index)
	}
	// Name the indexes in which they cannot, and the types of the newest date.
	mapping.blind = answer.without(job, searched...)
	mapping.jobWords = slices.DeleteFunc(answer.without(job, keywords...),
		func(index string) bool { return slices.Contains(mapping.blind, index) })
	mapping.machineWords = answer.without(machine, keywords...)
	if names := answer.with(recordTime, numbers...); len(names) > 0 {
		mapping.recordTime = names[0]
	}
	for _, kind := range numbers {
		if field, ok := answer.Fields[mapping.recordTime][kind]; ok {
			mapping.recordTimes = append(mapping.recordTimes, cmp.Or(strings.Join(field.Indices, ","), s.index))
		}
	}
	return mapping, nil
}

// spellings are the field names that an attribute can have.
func spellings(attribute string) []string {
	lower := strings.ToLower(attribute)
	names := []string{attribute, attribute + ".keyword", lower, lower + ".keyword"}
	if stem, isDate := strings.CutSuffix(attribute, "Date"); isDate {
		names = append(names, stem[:1]+strings.ToLower(stem[1:])+"Date")
	}
	return names
}
