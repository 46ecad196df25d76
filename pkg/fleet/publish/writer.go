package publish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/core/bulk"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/get"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/index"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/create"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/getindextemplate"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/putindextemplate"
	"github.com/elastic/go-elasticsearch/v8/typedapi/indices/refresh"
	"github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/optype"
	refreshpolicy "github.com/elastic/go-elasticsearch/v8/typedapi/types/enums/refresh"

	"github.com/chtc/gpureports/pkg/elastic"
	"github.com/chtc/gpureports/pkg/fleet/facts"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/remote"
)

// writer writes the facts of one pool.
type writer struct {
	Options
	point version     // the stored checkpoint's
	clear pool.Micros // facts from here on to the first hours that are written are removed; 0: none
}

type version struct {
	Sequence int64 `json:"_seq_no"`
	Term     int64 `json:"_primary_term"` // 0 without a document
}

// errMet is wrapped by the error of a checkpoint that another publishing has written since it was read.
var errMet = errors.New("another publishing of the pool is under way")

// prepare puts the template, makes the index of checkpoints with the alias, and makes the documents of an earlier run
// visible.
func (w *writer) prepare(ctx context.Context) error {
	shards, err := w.shards(ctx)
	if err != nil {
		return err
	}
	template, err := facts.Template(w.Index, shards)
	if err != nil {
		return fmt.Errorf("writing the index template: %w", err)
	}
	put := putindextemplate.NewPutIndexTemplateFunc(w.Client)(w.Index).Raw(bytes.NewReader(template))
	if err := w.Client.Ask(ctx, "putting the index template", put, nil); err != nil {
		return err
	}
	made := create.NewCreateFunc(w.Client)(facts.CheckpointIndex(w.Index)).Raw(strings.NewReader(
		`{"settings": {"number_of_shards": 1}}`))
	err = w.Client.Ask(ctx, "making the index of checkpoints", made, nil)
	if err != nil && !elastic.IsExisting(err) {
		return err
	}
	return w.show(ctx)
}

// shards is the number of shards of a month's index: as in the options, or otherwise as in an earlier run.
func (w *writer) shards(ctx context.Context) (int, error) {
	if w.Shards > 0 {
		return w.Shards, nil
	}
	var known struct {
		Templates []struct {
			Of struct {
				Template struct {
					Settings struct {
						Shards int `json:"index.number_of_shards,string"`
					}
				}
			} `json:"index_template"`
		} `json:"index_templates"`
	}
	request := getindextemplate.New(w.Client).Name(w.Index).FlatSettings(true)
	err := w.Client.Ask(ctx, "reading the index template", request, &known)
	if elastic.IsStatus(err, http.StatusNotFound) {
		return 1, nil
	}
	if err != nil || len(known.Templates) == 0 {
		return 1, err
	}
	return max(known.Templates[0].Of.Template.Settings.Shards, 1), nil
}

// show makes the written documents visible.
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

// checkpoint returns the pool's checkpoint, nil if there is none.
func (w *writer) checkpoint(ctx context.Context) (*facts.Checkpoint, error) {
	var found struct {
		version
		Source facts.Checkpoint `json:"_source"`
	}
	w.point = version{}
	id := (&facts.Checkpoint{Pool: w.Pool}).ID()
	request := get.NewGetFunc(w.Client)(facts.CheckpointIndex(w.Index), id)
	err := w.Client.Ask(ctx, "reading the checkpoint", request, &found)
	if elastic.IsStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	w.point = found.version
	return &found.Source, err
}

// keep writes the checkpoint, if it is the one that was read. Errors: errMet if it is not.
func (w *writer) keep(ctx context.Context, c *facts.Checkpoint) error {
	document, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("writing the checkpoint: %w", err)
	}
	request := index.NewIndexFunc(w.Client)(facts.CheckpointIndex(w.Index)).Id(c.ID()).Raw(bytes.NewReader(document)).
		Refresh(refreshpolicy.True)
	if w.point.Term == 0 {
		request.OpType(optype.Create)
	} else {
		request.IfSeqNo(strconv.FormatInt(w.point.Sequence, 10)).IfPrimaryTerm(strconv.FormatInt(w.point.Term, 10))
	}
	const doing = "writing the checkpoint"
	err = w.Client.Ask(ctx, doing, request, &w.point)
	if elastic.IsStatus(err, http.StatusConflict) {
		return w.Client.Fault(doing, errMet, fmt.Sprintf("let only one server publish pool %s", w.Pool))
	}
	return err
}

// find returns the pool's facts of the hours from one time to another, in ms.
func (w *writer) find(ctx context.Context, from, to int64) ([]elastic.Hit, error) {
	pinned, err := w.Client.Pin(ctx, w.Index)
	if err != nil {
		return nil, err
	}
	defer pinned.Close(ctx)
	const most = 10_000
	request := map[string]any{"size": most, "sort": []any{map[string]any{"_shard_doc": "asc"}},
		"query": map[string]any{"bool": map[string]any{"filter": []any{
			map[string]any{"term": map[string]any{"pool": w.Pool}},
			map[string]any{"range": map[string]any{"hour": map[string]any{"gte": from, "lt": to, "format": "epoch_millis"}}},
		}}}}
	var all []elastic.Hit
	for {
		page, err := pinned.Search(ctx, "looking for earlier facts", request)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Hits.Hits...)
		if len(page.Hits.Hits) < most {
			return all, nil
		}
		last := page.Hits.Hits[most-1].Sort
		if before, _ := request["search_after"].(json.RawMessage); bytes.Equal(before, last) {
			return nil, w.Client.Repeated("looking for earlier facts")
		}
		request["search_after"] = last
	}
}

// publish writes the facts of hours in place of those that are there, and how far they reach into the checkpoint.
func (w *writer) publish(ctx context.Context, point *facts.Checkpoint, starts []pool.Micros, all []*facts.Fact,
	complete pool.Micros) (Part, error) {
	last := starts[len(starts)-1]
	part := Part{From: pool.Time(starts[0]), To: pool.Time(last)}
	if !w.Since.IsZero() && w.point.Term != 0 { // so that an interrupted run is resumed
		if err := w.keep(ctx, point); err != nil {
			return part, err
		}
	}
	from := starts[0]
	if w.clear > 0 {
		from, w.clear = min(from, w.clear), 0
	}
	if err := w.replace(ctx, facts.Millis(from), facts.Millis(last), all, &part); err != nil {
		return part, err
	}
	point.Through = max(point.Through, facts.Millis(last))
	point.CompleteThrough = max(point.CompleteThrough, facts.Millis(complete))
	filled(point, facts.Millis(last))
	err := w.keep(ctx, point)
	if errors.Is(err, errMet) && part.Documents+part.Removed > 0 {
		err = w.disown(ctx, facts.Millis(from), err)
	}
	return part, err
}

// disown makes the hours from a time on, in ms, be published again: another publishing wrote the checkpoint meanwhile,
// so their documents may be a mix of both. It returns met, or why that failed.
func (w *writer) disown(ctx context.Context, from int64, met error) error {
	for range meetings {
		point, err := w.checkpoint(ctx)
		if err != nil || point == nil {
			return cmp.Or(err, met)
		}
		point.Filling = filling(point, max(point.Since, from))
		if err := w.keep(ctx, point); !errors.Is(err, errMet) {
			return cmp.Or(err, met)
		}
	}
	return met
}

// replace replaces all documents from one time to another, in ms: documents that differ are put, obsolete ones are
// removed. (Those of another zone can be of hours that begin at half past.)
func (w *writer) replace(ctx context.Context, from, to int64, all []*facts.Fact, part *Part) error {
	there, err := w.find(ctx, from, to)
	if err != nil {
		return err
	}
	earlier := make(map[string]*elastic.Hit, len(there))
	for i := range there {
		earlier[there[i].ID] = &there[i]
	}
	var changes []change
	for _, fact := range all {
		text, err := json.Marshal(fact)
		if err != nil {
			return fmt.Errorf("writing a fact of %s: %w", fact.Pool, err)
		}
		id := fact.ID()
		if known := earlier[id]; known == nil || !bytes.Equal(known.Source, text) {
			changes = append(changes, change{facts.Index(w.Index, fact.Hour), id, text})
		}
		delete(earlier, id)
	}
	part.Documents, part.Removed = len(changes), len(earlier)
	for _, hit := range earlier {
		changes = append(changes, change{index: hit.Index, id: hit.ID})
	}
	if len(changes) == 0 {
		return nil
	}
	if err := w.write(ctx, changes); err != nil {
		return err
	}
	return w.show(ctx)
}

// change is a document that is put, or removed if it has none.
type change struct {
	index, id string
	document  []byte
}

// write makes changes. Those that the server was too busy for are made again, with growing pauses.
func (w *writer) write(ctx context.Context, changes []change) error {
	all := len(changes)
	return remote.Retry(ctx, retries, func() error {
		busy, err := w.writeOnce(ctx, changes)
		if err != nil || len(busy) == 0 {
			return err
		}
		changes = busy
		return &remote.Temporary{Err: w.Client.Fault("writing facts", fmt.Errorf("%d of %d documents were refused %d times, "+
			"because too much is written at once", len(busy), all, retries.Attempts),
			"publish again later: it resumes where it stopped")}
	})
}

var retries = remote.Policy{Attempts: elastic.Attempts, First: time.Second, Longest: 8 * time.Second}

// writeOnce makes changes and returns those that the server was too busy for.
func (w *writer) writeOnce(ctx context.Context, changes []change) (busy []change, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute) // for all changes of a day
	defer cancel()
	const atOnce = 10_000
	for part := range slices.Chunk(changes, atOnce) {
		// Write the changes as one bulk request.
		var lines bytes.Buffer
		for _, c := range part {
			if c.document != nil {
				fmt.Fprintf(&lines, "{\"index\":{\"_index\":%q,\"_id\":%q}}\n%s\n", c.index, c.id, c.document)
			} else {
				fmt.Fprintf(&lines, "{\"delete\":{\"_index\":%q,\"_id\":%q}}\n", c.index, c.id)
			}
		}
		var answer struct {
			Items []map[string]struct { // by action, only one
				Status int
				Error  elastic.Reason
			}
		}
		request := bulk.New(w.Client).Raw(&lines).FilterPath("items.*.status", "items.*.error")
		if err := w.Client.Ask(ctx, "writing facts", request, &answer); err != nil {
			if ctx.Err() == nil {
				err = fmt.Errorf("%w. Publish again once the cause is fixed: it resumes where it stopped", err)
			}
			return nil, err
		}
		if len(answer.Items) != len(part) {
			return nil, w.Client.Unreadable("writing facts", fmt.Errorf("%d of %d changes are answered", len(answer.Items),
				len(part)))
		}
		// Each change has an answer of its own.
		for i, item := range answer.Items {
			for _, made := range item {
				switch {
				case made.Status == http.StatusTooManyRequests:
					busy = append(busy, part[i])
				case made.Status == http.StatusNotFound && part[i].document == nil: // it is gone already
				case made.Status >= 300:
					return nil, w.Client.Fault("writing facts", errors.New(made.Error.String()),
						"publish again once the cause is fixed: it resumes where it stopped")
				}
			}
		}
	}
	return busy, nil
}
