package elasticsearch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/types"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/parallel"
)

const (
	batch       = 1000 // jobs, or days of machines, per search
	concurrency = 4    // searches at a time
)

func (s *Source) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	ids := jobs.Keys(wanted)
	return lookUp(ctx, s, slices.Compact(slices.Sorted(slices.Values(ids))),
		func() *jobs.Collector { return jobs.NewCollector(ids, jobs.ByJob) },
		func(mapping fields, ids []string) types.Query {
			return either(append(anyOf(mapping.job, ids), byWords(mapping, ids)...))
		})
}

// AdsOnMachines implements [jobs.Source]. It relies on StartdName, which adstash gives every ad of a job that ran. Ads
// do not store the length of a run, so the search leaves out most of the longer runs, and the collector the rest.
func (s *Source) AdsOnMachines(ctx context.Context, days []jobs.MachineDay) (jobs.Result, error) {
	// Sort the days, each once, so that each search covers only a few.
	byDay := slices.SortedFunc(slices.Values(days), func(a, b jobs.MachineDay) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Machine, b.Machine))
	})
	return lookUp(ctx, s, slices.Compact(byDay), func() *jobs.Collector { return jobs.NewDayCollector(days) },
		func(mapping fields, days []jobs.MachineDay) types.Query {
			return types.Query{Bool: &types.BoolQuery{Filter: []types.Query{began(mapping, days)},
				MustNot: longer(mapping, days)}}
		})
}

// mostParts limits how many parts of days a search distinguishes. Each takes two clauses in every spelling, and a
// server may allow no more than 1024.
const mostParts = 120

// longer matches most of the ads of runs that lasted longer than wanted, and no others: those of runs that began in one
// part of a day and ended at least that long after it.
func longer(mapping fields, days []jobs.MachineDay) (queries []types.Query) {
	longest := map[int32]time.Duration{} // by day
	for _, d := range days {
		longest[d.Day] = max(longest[d.Day], cmp.Or(d.Longest, jobs.AnyLength))
	}
	parts := min(24, mostParts/len(longest))
	const never = 253402300800 // no clock of a pool shows the year 10000
	const lease = 60 * 60      // the ad of a job that was lost with its machine is written 40 minutes later
	for _, day := range slices.Sorted(maps.Keys(longest)) {
		if longest[day] == jobs.AnyLength {
			continue
		}
		for part := range parts {
			const length = 24 * 60 * 60
			begin := jobs.MachineDay{Day: day}.Start().Unix()
			from, to := begin+int64(length*part/parts), begin+int64(length*(part+1)/parts)-1
			started := within(mapping.start, from, to)
			ended := within(mapping.ended, to+int64(math.Ceil(longest[day].Seconds()))+lease+1, never-1)
			queries = append(queries, types.Query{Bool: &types.BoolQuery{Filter: []types.Query{started, ended}}})
		}
	}
	return queries
}

// within matches documents in which one of the fields is a date between two seconds, both included.
func within(fields []string, from, to int64) types.Query {
	format := "epoch_second" // a bare number would mean milliseconds
	second := func(t int64) json.RawMessage { return strconv.AppendInt(nil, t, 10) }
	var queries []types.Query
	for _, name := range fields {
		queries = append(queries, types.Query{Range: map[string]types.RangeQuery{
			name: types.UntypedRangeQuery{Gte: second(from), Lte: second(to), Format: &format}}})
	}
	return either(queries)
}

// began matches the ads whose run began on one of the machines and days.
func began(mapping fields, days []jobs.MachineDay) types.Query {
	machines := map[int32][]string{} // by day
	for _, d := range days {
		machines[d.Day] = append(machines[d.Day], d.Machine)
	}
	var queries []types.Query
	for _, day := range slices.Sorted(maps.Keys(machines)) {
		d := jobs.MachineDay{Day: day}
		there := anyOf(mapping.machine, machines[day])
		if len(mapping.machineWords) > 0 { // the collector leaves other machines out
			there = append(there, anyOf([]string{"_index"}, mapping.machineWords)...)
		}
		queries = append(queries, types.Query{Bool: &types.BoolQuery{Filter: []types.Query{either(there),
			within(mapping.start, d.Start().Unix(), d.End().Unix())}}})
	}
	return either(queries)
}

// anyOf are queries that match documents in which one of the fields has one of the values.
func anyOf(fields, values []string) (queries []types.Query) {
	for _, field := range fields {
		terms := &types.TermsQuery{TermsQuery: map[string]types.TermsQueryField{field: values}}
		queries = append(queries, types.Query{Terms: terms})
	}
	return queries
}

// byWords are queries that match the jobs' ads if the GlobalJobId is a text, and a few others, which the collector
// leaves out: the standard analyzer makes words of a GlobalJobId's second and third part, regardless of the first.
func byWords(mapping fields, ids []string) (queries []types.Query) {
	var numbers, times []string
	for _, id := range ids {
		if parts := strings.Split(id, "#"); len(parts) == 3 {
			numbers, times = append(numbers, parts[1]), append(times, parts[2])
		}
	}
	if len(mapping.jobWords) == 0 || len(numbers) == 0 {
		return nil
	}
	for _, field := range mapping.jobTexts {
		name := []string{field}
		queries = append(queries, types.Query{Bool: &types.BoolQuery{Filter: slices.Concat(anyOf(name, numbers),
			anyOf(name, times), anyOf([]string{"_index"}, mapping.jobWords))}})
	}
	return queries
}

// either matches ads that one of the queries matches; without queries, it matches none.
func either(queries []types.Query) types.Query {
	if len(queries) == 0 {
		return types.Query{MatchNone: &types.MatchNoneQuery{}}
	}
	return types.Query{Bool: &types.BoolQuery{Filter: []types.Query{{Bool: &types.BoolQuery{Should: queries,
		MinimumShouldMatch: 1}}}}}
}

// lookUp collects the ads with the given keys in batches, all from one point in time. If the server loses it (a node
// restarts), the lookup starts over, once.
func lookUp[K any](ctx context.Context, s *Source, keys []K, collector func() *jobs.Collector,
	query func(fields, []K) types.Query) (jobs.Result, error) {
	ctx, cancel := jobs.Limited(ctx, s.timeout)
	defer cancel()
	if len(keys) == 0 {
		return collector().Result(), nil
	}
	mapping, err := s.fields(ctx)
	if err != nil {
		return jobs.Result{}, err
	}
	var queries []types.Query
	for part := range slices.Chunk(keys, batch) {
		queries = append(queries, query(mapping, part))
	}
	result, err := s.search(ctx, queries, collector())
	if errors.Is(err, elastic.ErrLostPIT) { // the ads of the first attempt would count twice
		result, err = s.search(ctx, queries, collector())
	}
	if err != nil {
		return jobs.Result{}, err
	}
	result.Notices = append(result.Notices, s.mappingNotices(mapping)...) // not partial: no later answer would have more
	return result, nil
}

// search makes one attempt at a lookup.
func (s *Source) search(ctx context.Context, queries []types.Query, found *jobs.Collector) (jobs.Result, error) {
	pinned, err := s.es.Pin(ctx, s.index)
	if err != nil {
		return jobs.Result{}, err
	}
	defer pinned.Close(ctx)
	state := &paging{source: s, found: found, pinned: pinned}
	group, groupCtx := parallel.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range queries {
		group.Go(func() error { return state.pages(groupCtx, &queries[i]) })
	}
	if err := group.Wait(); err != nil {
		return jobs.Result{}, err
	}
	result, missing := found.Result(), state.notices()
	result.Partial = result.Partial || len(missing) > 0
	result.Notices = append(missing, result.Notices...)
	return result, nil
}

// paging is the state that the searches of one attempt share.
type paging struct {
	source *Source
	found  *jobs.Collector
	pinned *elastic.Pinned

	mu       sync.Mutex
	read     int64
	searches int
	timedOut int
	cut      bool
	failed   int    // searches with failed shards
	shards   string // the notice about the first of them
}

// pages reads all pages of one search.
func (p *paging) pages(ctx context.Context, query *types.Query) error {
	request := map[string]any{"query": query, "sort": []any{map[string]any{"_shard_doc": "asc"}},
		"_source": map[string]any{"includes": sourceNames}}
	size := p.source.page
	for {
		request["size"] = size
		page, err := p.pinned.SearchPart(ctx, "searching job ads", request)
		if err != nil {
			most := largestPage(err)
			if errors.Is(err, elastic.ErrTooLong) {
				most = size / 8
			}
			if 0 < most && most < size {
				size = most
				continue
			}
			return err
		}
		for _, hit := range page.Hits.Hits {
			p.found.Add(hit.Source)
		}
		if !p.note(page, size) {
			return nil
		}
		last := page.Hits.Hits[size-1].Sort
		if before, _ := request["search_after"].(json.RawMessage); bytes.Equal(before, last) {
			return p.source.es.Repeated("searching job ads")
		}
		request["search_after"] = last
	}
}

var windowLimit = regexp.MustCompile(`less than or equal to: \[(\d+)\]`)

// largestPage returns the page size that an index allows (max_result_window) if a search failed because of it,
// otherwise 0.
func largestPage(err error) (most int) {
	var status elastic.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusBadRequest {
		return 0
	}
	if found := windowLimit.FindStringSubmatch(status.Text); found != nil {
		most, _ = strconv.Atoi(found[1]) // a number that is too long gives 0
	}
	return most
}

// note records what a page says about the search; more reports whether to request the next page.
func (p *paging) note(page *elastic.Page, size int) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.searches++
	if page.TimedOut {
		p.timedOut++
	}
	if page.Shards.Failed > 0 {
		p.failed++
		if p.shards == "" {
			p.shards = p.source.shardNotice(page.Shards)
		}
	}
	p.read += int64(len(page.Hits.Hits))
	if more = len(page.Hits.Hits) == size; more && p.read >= p.source.maxAds {
		p.cut, more = true, false
	}
	return more
}

func (p *paging) notices() (missing []string) {
	if p.failed > 0 {
		missing = append(missing, fmt.Sprintf("%s (%d of %d searches)", p.shards, p.failed, p.searches))
	}
	if p.timedOut > 0 {
		missing = append(missing, fmt.Sprintf("Elasticsearch at %s: %d of %d searches timed out on the server: job ads may "+
			"be missing.", p.source.es.Shown, p.timedOut, p.searches))
	}
	if p.cut {
		missing = append(missing, fmt.Sprintf("More than %d job ads match: the rest were left out. Use a shorter time "+
			"range.", p.source.maxAds))
	}
	return missing
}
