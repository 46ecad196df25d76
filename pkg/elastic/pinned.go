package elastic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8/typedapi/core/closepointintime"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/openpointintime"
	"github.com/elastic/go-elasticsearch/v8/typedapi/core/search"
)

// keepAlive is how long the server keeps a point in time between two searches.
const keepAlive = "2m"

// Pinned is an index, alias or pattern as it was at one moment. It is safe for concurrent use.
type Pinned struct {
	client *Client

	mu sync.Mutex
	id string // the newest: an answer can contain a new one
}

// Pin opens a point in time of an index. Whoever does so closes it.
func (c *Client) Pin(ctx context.Context, index string) (*Pinned, error) {
	var opened struct{ ID string }
	request := openpointintime.NewOpenPointInTimeFunc(c)(index).KeepAlive(keepAlive)
	if err := c.Ask(ctx, "opening a point in time", request, &opened); err != nil {
		return nil, err
	}
	return &Pinned{client: c, id: opened.ID}, nil
}

// Page is an answer to a search.
type Page struct {
	PitID    string   `json:"pit_id"`
	TimedOut bool     `json:"timed_out"`
	Shards   Shards   `json:"_shards"` // missing clusters are among those that failed
	Clusters Clusters `json:"_clusters"`
	Hits     struct {
		Hits []Hit
	}
	Aggregations map[string]json.RawMessage
}

// Hit is a document that was found.
type Hit struct {
	Index  string          `json:"_index"`
	ID     string          `json:"_id"`
	Source json.RawMessage `json:"_source"`
	Sort   json.RawMessage
}

// Search is SearchPart, but an answer that lacks anything, because of a shard that failed or of time that ran out, is
// an error: nothing is answered in part.
func (p *Pinned) Search(ctx context.Context, doing string, request map[string]any) (*Page, error) {
	page, err := p.SearchPart(ctx, doing, request)
	switch {
	case err != nil:
		return nil, err
	case page.TimedOut:
		return nil, p.client.Fault(doing, fmt.Errorf("the server's time ran out, so that the answer would be a part"),
			"ask for a shorter time range, or check the server's load")
	}
	return page, p.client.Complete(doing, &page.Shards)
}

// SearchPart searches with a request in JSON. The answer may be incomplete, which its fields tell.
func (p *Pinned) SearchPart(ctx context.Context, doing string, request map[string]any) (*Page, error) {
	request["pit"] = map[string]any{"id": p.newest(""), "keep_alive": keepAlive}
	request["track_total_hits"] = false
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var page Page
	if err := p.client.Ask(ctx, doing, search.New(p.client).Raw(bytes.NewReader(body)), &page); err != nil {
		return nil, err
	}
	for _, failure := range page.Shards.Failures {
		if failure.Reason.Type == LostPIT {
			return nil, p.client.Lost(doing)
		}
	}
	missing := page.Clusters.missing()
	page.Shards.Failures = append(missing, page.Shards.Failures...)
	page.Shards.Failed, page.Shards.Total = page.Shards.Failed+len(missing), page.Shards.Total+len(missing)
	p.newest(page.PitID)
	return &page, nil
}

// newest returns the newest id, which is the given one unless that is empty.
func (p *Pinned) newest(id string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = cmp.Or(id, p.id)
	return p.id
}

// Repeated is the error of a server that gives a page of an answer again instead of the next one.
func (c *Client) Repeated(doing string) error {
	return c.Fault(doing, errors.New("the server repeats a page of the answer instead of giving the next one"),
		"check whether something between this server and Elasticsearch, such as a proxy, changes requests")
}

// Close frees the point in time. The server does so itself after a while: an error is of no consequence.
func (p *Pinned) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if res, err := closepointintime.New(p.client).Id(p.newest("")).Perform(ctx); err == nil {
		_ = res.Body.Close()
	}
}
