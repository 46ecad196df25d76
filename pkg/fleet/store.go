package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// Store is the facts of many pools. It is safe for concurrent use.
type Store struct {
	client  *elastic.Client
	index   string
	timeout time.Duration // the longest that an answer may take
}

// Connect checks the URL of Elasticsearch and the alias of the facts; it does not contact the server yet. The transport
// does the requests; nil is Go's default. Errors are pool.BadQuery.
func Connect(url string, transport http.RoundTripper, index string) (*elastic.Client, error) {
	if err := CheckIndex(index); err != nil {
		return nil, err
	}
	return elastic.New(url, transport, elastic.Remedies{
		Forbidden: fmt.Sprintf("give the user or API key the right read on %s and %s-*; who publishes needs create_index, "+
			"index, delete, maintenance and manage as well, and manage_index_templates of the cluster", index, index),
		NotFound: fmt.Sprintf("check factsIndex (%s), and that gpureports publish has put facts there", index),
	})
}

// Open opens the facts, as [Connect] does.
func Open(url string, transport http.RoundTripper, index string) (*Store, error) {
	client, err := Connect(url, transport, index)
	return &Store{client, index, time.Minute}, err
}

// CheckIndex refuses a name that cannot be the alias of facts. Errors are pool.BadQuery.
func CheckIndex(name string) error {
	if name == "" {
		return pool.BadQuery("factsIndex is not set: name the alias of the pools' facts in Elasticsearch, such as gpu-facts")
	}
	if name != strings.ToLower(name) || strings.ContainsAny(name, `/\*?#"<>|,: `) ||
		strings.ContainsAny(name[:1], "-_+.") {
		return pool.BadQuery("factsIndex %q cannot be the name of an alias: use small letters, digits and hyphens, such as "+
			"gpu-facts", name)
	}
	return nil
}

// Pools returns the checkpoints of all pools, by name. Errors are pool.SourceError, and ctx's.
func (s *Store) Pools(ctx context.Context) ([]facts.Checkpoint, error) {
	return retried(ctx, s, s.pools)
}

func (s *Store) pools(ctx context.Context, pinned *elastic.Pinned) ([]facts.Checkpoint, error) {
	const doing = "reading the published pools"
	page, err := pinned.Search(ctx, doing, map[string]any{"size": pool.MostPools,
		"query": map[string]any{"term": map[string]any{"kind": facts.KindPool}},
		"sort":  []any{map[string]any{"pool": "asc"}}})
	if err != nil {
		return nil, err
	}
	if len(page.Hits.Hits) == pool.MostPools {
		return nil, s.client.Fault(doing, fmt.Errorf("there are %d pools or more", pool.MostPools),
			"use an alias for each part of them")
	}
	all := make([]facts.Checkpoint, len(page.Hits.Hits))
	for i, hit := range page.Hits.Hits {
		if err := json.Unmarshal(hit.Source, &all[i]); err != nil {
			return nil, s.client.Fault(doing, fmt.Errorf("a checkpoint cannot be read: %w", err), "publish the pool again")
		}
		if v := all[i].Version; v != facts.Version {
			return nil, s.client.Fault(doing, fmt.Errorf("the facts of pool %s are of version %d, this plugin reads %d",
				all[i].Pool, v, facts.Version), "update the older one of plugin and gpureports, and publish again")
		}
	}
	return all, nil
}

// jobProject is the only field that facts of a kind may lack.
const jobProject = "jobProject"

// Fields of evictions: the hour in which jobs last saved their work, and that in which the runs began.
const (
	fieldSaved = "saved"
	fieldBegan = "began"
)

// pageOf is how many groups an answer brings: as many as the server's usual search.max_buckets allows, since without a
// time each further page reads all documents again.
const pageOf = 60_000

// each calls use with the sums of the groups that the filter chooses, by pool and bucket, exactly: all pages of a
// composite aggregation. Its errors are returned.
func (a *asked) each(ctx context.Context, w wanted, use func(cell) error) error {
	// Have the facts added up by what pools and groups need.
	composite, added := map[string]any{"size": pageOf, "sources": a.sources(w)}, map[string]any{}
	for _, field := range w.fields {
		added[field] = map[string]any{"sum": map[string]any{"field": field}}
	}
	request := map[string]any{"size": 0, "query": a.matching(w),
		"aggs": map[string]any{"groups": map[string]any{"composite": composite, "aggs": added}}}
	// Read page after page: groups that the filter leaves out are skipped here, because it may be a pattern.
	const doing = "adding facts up"
	filters := filtersOf(&a.plan.Select, w.kind)
	for read := 0; ; {
		page, err := a.pinned.Search(ctx, doing, request)
		if err != nil {
			return err
		}
		var groups struct {
			AfterKey json.RawMessage `json:"after_key"`
			Buckets  []map[string]json.RawMessage
		}
		if err := json.Unmarshal(page.Aggregations["groups"], &groups); err != nil {
			return a.store.client.Unreadable(doing, err)
		}
		for _, bucket := range groups.Buckets {
			found, err := a.read(w, bucket)
			if err != nil {
				return a.store.client.Unreadable(doing, err)
			}
			if slices.ContainsFunc(filters, func(g query.Grouping) bool {
				text, grouped := found.texts[query.Groupings[g].Fact]
				return grouped && !a.plan.Select.Match(g, text)
			}) {
				continue
			}
			if err := use(found); err != nil {
				return err
			}
		}
		if read += len(groups.Buckets); read > pool.MostGroups {
			return pool.BadQuery("more than %d groups are too many: group by less, choose a longer bucket or a shorter time "+
				"range", pool.MostGroups)
		}
		if len(groups.Buckets) < pageOf || groups.AfterKey == nil {
			return nil
		}
		if before, _ := composite["after"].(json.RawMessage); bytes.Equal(before, groups.AfterKey) {
			return a.store.client.Repeated(doing)
		}
		composite["after"] = groups.AfterKey
	}
}

// sources are the fields to group by: pool and time first, because documents are stored in this order, so that a page
// begins where the last one ended.
func (a *asked) sources(w wanted) (sources []map[string]any) {
	for _, field := range a.groupedBy(w) {
		terms := map[string]any{"field": field}
		if field == jobProject { // facts without it are of jobs whose projects are not known
			terms["missing_bucket"] = true
		}
		sources = append(sources, map[string]any{field: map[string]any{"terms": terms}})
	}
	of := map[string]any{"terms": map[string]any{"field": "hour"}}
	switch bucket := a.plan.Bucket; {
	case w.hours:
	case bucket == nil:
		return sources
	case bucket.Minutes >= int(pool.Day/pool.Minute): // longer buckets are made of days
		of = map[string]any{"date_histogram": map[string]any{"field": "hour", "calendar_interval": "day",
			"time_zone": a.plan.Location.String()}}
	}
	return slices.Insert(sources, 1, map[string]any{"time": of})
}

func (a *asked) matching(w wanted) map[string]any {
	filter := []map[string]any{{"term": map[string]any{"kind": w.kind}}, anyOf(a.within(w.also))}
	having := w.having
	if having == nil {
		having = w.fields
	}
	var exist []map[string]any
	for _, field := range having {
		exist = append(exist, map[string]any{"exists": map[string]any{"field": field}})
	}
	if len(exist) > 0 {
		filter = append(filter, anyOf(exist))
	}
	return map[string]any{"bool": map[string]any{"filter": filter}}
}

func anyOf(queries []map[string]any) map[string]any {
	return map[string]any{"bool": map[string]any{"should": queries, "minimum_should_match": 1}}
}

func (a *asked) read(w wanted, bucket map[string]json.RawMessage) (cell, error) {
	found := cell{texts: map[string]string{}}
	var key map[string]any
	if err := json.Unmarshal(bucket["key"], &key); err != nil {
		return found, err
	}
	for name, value := range key {
		switch value := value.(type) {
		case nil:
			found.texts[name] = query.Unknown
		case string:
			found.texts[name] = value
		case float64:
			if at := facts.Micros(int64(value)); name == fieldBegan || name == fieldSaved {
				found.began = at
			} else {
				found.time = at
			}
		}
	}
	if found.pool, found.bucket = a.byName[found.texts["pool"]], a.bucket(found.time); found.pool == nil {
		return found, errors.New("facts of another pool")
	}
	for _, field := range w.fields {
		var holder struct{ Value *float64 }
		if err := json.Unmarshal(bucket[field], &holder); err != nil {
			return found, err
		}
		if holder.Value == nil {
			return found, errors.New("a sum has no value")
		}
		found.values = append(found.values, *holder.Value)
	}
	return found, nil
}
