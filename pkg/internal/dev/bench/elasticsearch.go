package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/elastic/go-elasticsearch/v8"

	"github.com/chtc/gpureports/pkg/internal/dev/adstash"
	"github.com/chtc/gpureports/pkg/internal/dev/elastictest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// StartElasticsearch as Options.Elasticsearch starts the server of the checkout's tests/elasticsearch.
const StartElasticsearch = "start"

const (
	adsInElasticsearch = 100_000
	adsIndex           = "gpureports-bench"
)

// elasticsearch asks for evictions with the month's ads in a server: for the first time, then every 30 s for 10 min.
func (b *bench) elasticsearch(ctx context.Context) error {
	if b.Elasticsearch == "" {
		return nil
	}
	url := b.Elasticsearch
	if url == StartElasticsearch {
		var server elastictest.Server
		if err := server.Start(ctx); err != nil {
			return err
		}
		defer server.Stop()
		url = server.URL
	}
	n, remove, err := b.load(ctx, url)
	if err != nil {
		return err
	}
	defer remove()
	s, err := settings(b.month(), "", "elasticsearch", map[string]any{"jobsIndex": adsIndex})
	if err != nil {
		return err
	}
	s.URL = url
	at := now
	source := plugin.Open(s, func() time.Time { return at })
	defer source.Dispose()
	if err := ask(ctx, source, byCategory, b.monthDays()+7, now); err != nil { // reads the snapshots
		return err
	}
	again := func(int) error { return ask(ctx, source, evictionsByDevice.json, b.monthDays(), at) }
	first, err := timed(1, again)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%d ads in it", n)
	b.add(first.milliseconds("first answer with job ads in Elasticsearch", 6000, note+", the server on the same cores"))
	b.add(Figure{What: "the same: CPU time of the plugin", Value: first.cpu, Unit: "ms", Bound: 6000, Note: note})
	rebuilds := 0
	for range 20 {
		at = at.Add(30 * time.Second)
		t, err := timed(1, again)
		if err != nil {
			return err
		}
		if t.cpu > first.cpu/20 { // runs are linked with their ads again
			rebuilds++
		}
	}
	b.add(Figure{What: "a panel every 30 s for 10 min, no new snapshot", Value: float64(rebuilds),
		Unit: "answers that link runs anew", Bound: 2, Note: note})
	return nil
}

// load fills an index of its own with the month's ads, epoch ads first.
func (b *bench) load(ctx context.Context, url string) (n int, remove func(), err error) {
	es, err := elasticsearch.NewTypedClient(elasticsearch.Config{Addresses: []string{url}})
	if err != nil {
		return 0, nil, err
	}
	remove = func() { _, _ = es.Indices.Delete(adsIndex).Do(context.WithoutCancel(ctx)) }
	remove() // of an earlier run that did not come to its end
	for _, name := range []string{"jobs_epochs.jsonl", "jobs_history_refactored.jsonl"} {
		text, err := os.ReadFile(filepath.Join(b.month(), name))
		if err != nil {
			return 0, nil, err
		}
		left := adsInElasticsearch - n
		added, err := adstash.Load(ctx, es, adsIndex, adstash.Refactored, func(yield func([]byte) bool) {
			for line := range bytes.Lines(text) {
				if left--; left < 0 || !yield(line) {
					return
				}
			}
		})
		if err != nil {
			remove()
			return 0, nil, err
		}
		n += added
	}
	return n, remove, nil
}
