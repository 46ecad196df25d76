package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esutil"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/index"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/create"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/putindextemplate"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/putmapping"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/refresh"
	refreshpolicy "github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/refresh"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
)

// writer writes the facts of one pool.
type writer struct{ Options }

// prepare puts the template, makes the index of checkpoints with the alias, and shows what an earlier publishing left.
func (w *writer) prepare(ctx context.Context) error {
	template, err := facts.Template(w.Index)
	if err != nil {
		return fmt.Errorf("writing the index template: %w", err)
	}
	var ignored any
	put := putindextemplate.NewPutIndexTemplateFunc(w.Client)(w.Index).Raw(bytes.NewReader(template))
	if err := w.Client.Ask(ctx, "putting the index template", put, &ignored); err != nil {
		return err
	}
	made := create.NewCreateFunc(w.Client)(facts.CheckpointIndex(w.Index))
	var status elastic.StatusError
	err = w.Client.Ask(ctx, "making the index of checkpoints", made, &ignored)
	if err != nil && !(errors.As(err, &status) && strings.Contains(status.Text, "resource_already_exists_exception")) {
		return err
	}
	return w.show(ctx)
}

// extend adds the fields of this version to the indices that are there: the template is for new ones only.
func (w *writer) extend(ctx context.Context) error {
	mapping, err := facts.Mapping()
	if err != nil {
		return fmt.Errorf("writing the mapping: %w", err)
	}
	var ignored any
	request := putmapping.NewPutMappingFunc(w.Client)(w.Index).Raw(bytes.NewReader(mapping))
	return w.Client.Ask(ctx, "adding fields to the indices of facts", request, &ignored)
}

// show makes what was written visible.
func (w *writer) show(ctx context.Context) error {
	var answer struct {
		Shards elastic.Shards `json:"_shards"`
	}
	const doing = "refreshing the facts"
	if err := w.Client.Ask(ctx, doing, refresh.New(w.Client).Index(w.Index), &answer); err != nil {
		return err
	}
	return w.Client.Complete(doing, &answer.Shards)
}

// checkpoint returns the pool's checkpoint, nil without one.
func (w *writer) checkpoint(ctx context.Context) (*facts.Checkpoint, error) {
	hits, err := w.find(ctx, "reading the checkpoint", true,
		map[string]any{"term": map[string]any{"kind": facts.KindPool}})
	if err != nil || len(hits) == 0 {
		return nil, err
	}
	var c facts.Checkpoint
	if err := json.Unmarshal(hits[0].Source, &c); err != nil {
		return nil, fmt.Errorf("reading the checkpoint of pool %s: %w", w.Pool, err)
	}
	return &c, nil
}

// keep writes the checkpoint.
func (w *writer) keep(ctx context.Context, c *facts.Checkpoint) error {
	document, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing the checkpoint: %w", err)
	}
	var ignored any
	request := index.NewIndexFunc(w.Client)(facts.CheckpointIndex(w.Index)).Id(c.ID()).Raw(bytes.NewReader(document)).
		Refresh(refreshpolicy.True)
	return w.Client.Ask(ctx, "writing the checkpoint", request, &ignored)
}

// find returns the pool's documents that match.
func (w *writer) find(ctx context.Context, doing string, sources bool, also map[string]any) ([]elastic.Hit, error) {
	pinned, err := w.Client.Pin(ctx, w.Index)
	if err != nil {
		return nil, err
	}
	defer pinned.Close(ctx)
	const most = 10_000
	request := map[string]any{"size": most, "_source": sources, "sort": []any{map[string]any{"_shard_doc": "asc"}},
		"query": map[string]any{"bool": map[string]any{"filter": []any{
			map[string]any{"term": map[string]any{"pool": w.Pool}}, also}}}}
	var all []elastic.Hit
	for {
		page, err := pinned.Search(ctx, doing, request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Hits.Hits...)
		if len(page.Hits.Hits) < most {
			return all, nil
		}
		request["search_after"] = page.Hits.Hits[most-1].Sort
	}
}

// publish writes the facts of hours in place of those that are there.
func (w *writer) publish(ctx context.Context, s *stores.Stores, env query.Env, hours []pool.Micros,
	finished pool.Micros) (Part, error) {
	all, notices, err := facts.Compute(ctx, s, env, facts.Asked{Pool: w.Pool, Hours: hours, Finished: finished,
		Now: w.Now().UnixMicro()})
	if err != nil {
		return Part{}, err
	}
	part, err := w.replace(ctx, hours[0], hours[len(hours)-1], all)
	for _, n := range notices {
		if n.Warning {
			part.Warnings = append(part.Warnings, n.Text)
		}
	}
	return part, err
}

// replace writes the facts of [from, to) in place of those that are there.
func (w *writer) replace(ctx context.Context, from, to pool.Micros, all []*facts.Fact) (Part, error) {
	part := Part{From: pool.Time(from), To: pool.Time(to)}
	there, err := w.find(ctx, "looking for earlier facts", true, map[string]any{"range": map[string]any{
		"hour": map[string]any{"gte": facts.Millis(from), "lt": facts.Millis(to), "format": "epoch_millis"}}})
	if err != nil {
		return part, err
	}
	changes, err := w.changes(all, there)
	if err != nil {
		return part, err
	}
	for _, c := range changes {
		if c.document != nil {
			part.Documents++
		} else {
			part.Removed++
		}
	}
	if len(changes) == 0 {
		return part, nil
	}
	if err := w.write(ctx, changes); err != nil {
		return part, err
	}
	return part, w.show(ctx)
}

// changes are what makes facts of those that are there: documents that differ are put, those that are no more removed.
func (w *writer) changes(all []*facts.Fact, there []elastic.Hit) (changes []change, err error) {
	earlier := make(map[string]*elastic.Hit, len(there))
	for i := range there {
		earlier[there[i].ID] = &there[i]
	}
	for _, f := range all {
		c := change{index: facts.Index(w.Index, f.Hour), id: f.ID()}
		if c.document, err = json.Marshal(f); err != nil {
			return nil, fmt.Errorf("writing a fact: %w", err)
		}
		if known := earlier[c.id]; known == nil || !bytes.Equal(known.Source, c.document) {
			changes = append(changes, c)
		}
		delete(earlier, c.id)
	}
	for _, hit := range earlier {
		changes = append(changes, change{index: hit.Index, id: hit.ID})
	}
	return changes, nil
}

// change is a document that is put, or removed where it has none.
type change struct {
	index, id string
	document  []byte
}

// write makes changes. Those that the server could not take at the moment are tried again, with growing pauses.
func (w *writer) write(ctx context.Context, changes []change) error {
	pause := time.Second
	for attempt := 1; ; attempt++ {
		busy, err := w.writeOnce(ctx, changes)
		if err != nil || len(busy) == 0 {
			return err
		}
		if attempt == elastic.Attempts {
			return w.Client.Fault("writing facts", fmt.Errorf("%d of %d documents were refused %d times, because too much is "+
				"written at once", len(busy), len(changes), attempt), "publish again later: it goes on where it was")
		}
		if err := parallel.Wait(ctx, pause); err != nil {
			return err
		}
		changes, pause = busy, 2*pause
	}
}

// writeOnce makes changes and returns those that the server was too busy for.
func (w *writer) writeOnce(ctx context.Context, changes []change) (busy []change, err error) {
	var mu sync.Mutex
	fail := func(problem error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = w.Client.Fault("writing facts", problem, "publish again once the cause is mended: it goes on where it was")
		}
	}
	indexer, failure := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: w.Client,
		OnError: func(_ context.Context, problem error) { fail(problem) }})
	if failure != nil {
		return nil, fmt.Errorf("writing facts: %w", failure)
	}
	for _, c := range changes {
		item := esutil.BulkIndexerItem{Action: "delete", Index: c.index, DocumentID: c.id,
			OnFailure: func(_ context.Context, _ esutil.BulkIndexerItem, answer esutil.BulkIndexerResponseItem, problem error) {
				switch {
				case answer.Status == http.StatusTooManyRequests:
					mu.Lock()
					busy = append(busy, c)
					mu.Unlock()
				case c.document == nil && answer.Status == http.StatusNotFound: // it is gone already
				case problem != nil:
					fail(problem)
				default:
					fail(fmt.Errorf("%s: %s", answer.Error.Type, answer.Error.Reason))
				}
			}}
		if c.document != nil {
			item.Action, item.Body = "index", bytes.NewReader(c.document)
		}
		if failure := indexer.Add(ctx, item); failure != nil {
			fail(failure)
			break
		}
	}
	if failure := indexer.Close(ctx); failure != nil {
		fail(failure)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return busy, err
}
