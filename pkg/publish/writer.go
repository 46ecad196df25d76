package publish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esutil"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/index"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/create"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/getindextemplate"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/getmapping"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/putindextemplate"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/putmapping"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/refresh"
	refreshpolicy "github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/refresh"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/facts"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
)

// writer writes the facts of one pool.
type writer struct{ Options }

// prepare puts the template, makes the index of checkpoints with the alias, adds the fields that the indices of earlier
// versions lack, and shows what an earlier publishing left.
func (w *writer) prepare(ctx context.Context) error {
	shards, err := w.shards(ctx)
	if err != nil {
		return err
	}
	template, err := facts.Template(w.Index, shards)
	if err != nil {
		return fmt.Errorf("writing the index template: %w", err)
	}
	var ignored any
	put := putindextemplate.NewPutIndexTemplateFunc(w.Client)(w.Index).Raw(bytes.NewReader(template))
	if err := w.Client.Ask(ctx, "putting the index template", put, &ignored); err != nil {
		return err
	}
	made := create.NewCreateFunc(w.Client)(facts.CheckpointIndex(w.Index)).Raw(strings.NewReader(
		`{"settings": {"number_of_shards": 1}}`))
	var status elastic.StatusError
	err = w.Client.Ask(ctx, "making the index of checkpoints", made, &ignored)
	if err != nil && !(errors.As(err, &status) && strings.Contains(status.Text, "resource_already_exists_exception")) {
		return err
	}
	if err := w.extend(ctx); err != nil {
		return err
	}
	return w.show(ctx)
}

// shards is how many an index of a month gets: what is wanted, else what an earlier publishing wanted.
func (w *writer) shards(ctx context.Context) (int, error) {
	if w.Shards > 0 {
		return w.Shards, nil
	}
	var known struct {
		Templates []struct {
			Of struct {
				Template struct {
					Settings struct {
						Index struct {
							Shards int `json:"number_of_shards,string"`
						}
					}
				}
			} `json:"index_template"`
		} `json:"index_templates"`
	}
	var status elastic.StatusError
	err := w.Client.Ask(ctx, "reading the index template", getindextemplate.New(w.Client).Name(w.Index), &known)
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return 1, nil
	}
	if err != nil || len(known.Templates) == 0 {
		return 1, err
	}
	return max(known.Templates[0].Of.Template.Settings.Index.Shards, 1), nil
}

// extend adds the fields that the indices of earlier versions lack: the template is for new ones only.
func (w *writer) extend(ctx context.Context) error {
	var indices map[string]struct {
		Mappings struct{ Properties map[string]json.RawMessage }
	}
	there := getmapping.New(w.Client).Index(w.Index)
	if err := w.Client.Ask(ctx, "reading the fields of the indices of facts", there, &indices); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(indices)) {
		fields := facts.Fields()
		for known := range indices[name].Mappings.Properties {
			delete(fields, known)
		}
		if len(fields) == 0 {
			continue
		}
		text, err := json.Marshal(facts.Mapping(fields))
		if err != nil {
			return fmt.Errorf("writing the mapping: %w", err)
		}
		var ignored any
		request := putmapping.NewPutMappingFunc(w.Client)(name).Raw(bytes.NewReader(text))
		if err := w.Client.Ask(ctx, "adding fields to the indices of facts", request, &ignored); err != nil {
			return err
		}
	}
	return nil
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
	hits, err := w.find(ctx, "reading the checkpoint",
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
func (w *writer) find(ctx context.Context, doing string, also map[string]any) ([]elastic.Hit, error) {
	pinned, err := w.Client.Pin(ctx, w.Index)
	if err != nil {
		return nil, err
	}
	defer pinned.Close(ctx)
	const most = 10_000
	request := map[string]any{"size": most, "sort": []any{map[string]any{"_shard_doc": "asc"}}, "query": w.own(also)}
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

// forget keeps of the checkpoint's hours only those that are looked at again and whose documents are all there. An hour
// that is not kept is compared with what is there.
func (w *writer) forget(ctx context.Context, point *facts.Checkpoint, from pool.Micros) error {
	if !w.Since.IsZero() {
		point.Written = nil
	}
	maps.DeleteFunc(point.Written, func(start int64, _ facts.Written) bool { return start < facts.Millis(from) })
	if len(point.Written) == 0 {
		return nil
	}
	there, err := w.count(ctx, from)
	maps.DeleteFunc(point.Written, func(start int64, o facts.Written) bool { return there[start] != o.Documents })
	return err
}

// count returns the number of the pool's documents of each hour from one on.
func (w *writer) count(ctx context.Context, from pool.Micros) (map[int64]int, error) {
	pinned, err := w.Client.Pin(ctx, w.Index)
	if err != nil {
		return nil, err
	}
	defer pinned.Close(ctx)
	const doing, most = "counting earlier facts", 10_000
	page, err := pinned.Search(ctx, doing, map[string]any{"size": 0,
		"query": w.own(map[string]any{"range": map[string]any{"hour": map[string]any{"gte": facts.Millis(from),
			"format": "epoch_millis"}}}),
		"aggs": map[string]any{"hours": map[string]any{"composite": map[string]any{"size": most, "sources": []any{
			map[string]any{"hour": map[string]any{"terms": map[string]any{"field": "hour"}}}}}}}})
	if err != nil {
		return nil, err
	}
	var hours struct {
		Buckets []struct {
			Key   struct{ Hour int64 }
			Count int `json:"doc_count"`
		}
	}
	if err := json.Unmarshal(page.Aggregations["hours"], &hours); err != nil {
		return nil, w.Client.Fault(doing, fmt.Errorf("the answer cannot be read: %w", err), "check the server's version")
	}
	counts := make(map[int64]int, len(hours.Buckets))
	for _, b := range hours.Buckets {
		counts[b.Key.Hour] = b.Count
	}
	return counts, nil
}

// own matches the pool's documents that a query matches.
func (w *writer) own(also map[string]any) map[string]any {
	return map[string]any{"bool": map[string]any{"filter": []any{map[string]any{"term": map[string]any{"pool": w.Pool}},
		also}}}
}

// publish writes the facts of hours in place of those that are there, and how far they reach into the checkpoint. Hours
// in which nothing has changed since they were written are left alone.
func (w *writer) publish(ctx context.Context, point *facts.Checkpoint, starts []pool.Micros, all []*facts.Fact,
	complete pool.Micros) (Part, error) {
	part := Part{From: pool.Time(starts[0]), To: pool.Time(starts[len(starts)-1])}
	millis := make([]int64, len(starts))
	for i, start := range starts {
		millis[i] = facts.Millis(start)
	}
	made, err := documents(all)
	if err != nil {
		return part, err
	}
	var changed []int64
	now := map[int64]facts.Written{}
	var differ []document
	known := false
	for start, of := range hours(millis, made) {
		if now[start] = written(of); point.Written[start] == now[start] {
			continue
		}
		_, there := point.Written[start]
		known = known || there
		delete(point.Written, start)
		changed, differ = append(changed, start), append(differ, of...)
	}
	if known { // what is half written must not pass for written
		if err := w.keep(ctx, point); err != nil {
			return part, err
		}
	}
	if err := w.replace(ctx, changed, differ, &part); err != nil {
		return part, err
	}
	if point.Written == nil {
		point.Written = map[int64]facts.Written{}
	}
	maps.Copy(point.Written, now)
	last := starts[len(starts)-1]
	point.Through = max(point.Through, facts.Millis(last))
	point.CompleteThrough = max(point.CompleteThrough, facts.Millis(complete))
	point.PublishedAt = w.Now().UnixMilli()
	oldest := point.CompleteThrough - facts.Millis(correcting)
	maps.DeleteFunc(point.Written, func(start int64, _ facts.Written) bool { return start < oldest })
	return part, w.keep(ctx, point)
}

// replace writes the documents of hours in place of those that are there.
func (w *writer) replace(ctx context.Context, starts []int64, all []document, part *Part) error {
	if len(starts) == 0 {
		return nil
	}
	part.Compared = len(starts)
	there, err := w.find(ctx, "looking for earlier facts", map[string]any{"terms": map[string]any{"hour": starts}})
	if err != nil {
		return err
	}
	changes := w.changes(all, there)
	for _, c := range changes {
		if c.document != nil {
			part.Documents++
		} else {
			part.Removed++
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := w.write(ctx, changes); err != nil {
		return err
	}
	return w.show(ctx)
}

// changes are what makes documents of those that are there: those that differ are put, those that are no more removed.
func (w *writer) changes(all []document, there []elastic.Hit) (changes []change) {
	earlier := make(map[string]*elastic.Hit, len(there))
	for i := range there {
		earlier[there[i].ID] = &there[i]
	}
	for _, d := range all {
		if known := earlier[d.id]; known == nil || !bytes.Equal(known.Source, d.text) {
			changes = append(changes, change{facts.Index(w.Index, d.hour), d.id, d.text})
		}
		delete(earlier, d.id)
	}
	for _, hit := range earlier {
		changes = append(changes, change{index: hit.Index, id: hit.ID})
	}
	return changes
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

// writing is how long the changes of a day may take.
const writing = 15 * time.Minute

// writeOnce makes changes and returns those that the server was too busy for.
func (w *writer) writeOnce(ctx context.Context, changes []change) (busy []change, err error) {
	ctx, cancel := context.WithTimeout(ctx, writing)
	defer cancel()
	var mu sync.Mutex
	fail := func(problem error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = w.Client.Fault("writing facts", problem, "publish again once the cause is mended: it goes on where it was")
		}
	}
	indexer, failure := esutil.NewBulkIndexer(esutil.BulkIndexerConfig{Client: w.Client, QueueSizeMultiplier: 256,
		FilterPath: []string{"items.*.status", "items.*.error.type", "items.*.error.reason"},
		OnError:    func(_ context.Context, problem error) { fail(problem) }})
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
