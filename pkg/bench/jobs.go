package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/elastic/elastictest"
	"github.com/chtc/gpureports/pkg/jobs/adstash"
	"github.com/chtc/gpureports/pkg/plugin"
)

// StartElasticsearch as Options.Elasticsearch starts the server of the checkout's tests/elasticsearch.
const StartElasticsearch = "start"

const (
	adsInElasticsearch = 100_000
	adsIndex           = "gpureports-bench"
)

// withAds are the panels that the job ads are measured with: one of each kind.
var withAds = []panel{
	{"backfill availability", `{"queryType":"backfillAvailability","view":"summary","groupBy":["device"]}`},
	{"evictions", `{"queryType":"evictions","view":"summary","groupBy":["device"]}`},
}

// jobAds asks both kinds over the month without job ads, with the job file and with an Elasticsearch.
func (b *bench) jobAds(ctx context.Context) error {
	settings, err := b.settings(b.month(), "", "none")
	if err != nil {
		return err
	}
	limits := adLimits{warm: [2]float64{10, 5}, moved: 20}
	if err := b.sharpened(ctx, "without job ads", settings, limits, ""); err != nil {
		return err
	}
	limits = adLimits{first: 3000, warm: [2]float64{15, 15}, moved: 20}
	note := ""
	if b.Elasticsearch == "" {
		note = "Elasticsearch is left out: none is given"
	}
	if settings, err = b.settings(b.month(), "", "sqlite"); err != nil {
		return err
	}
	if err := b.sharpened(ctx, "with the job file", settings, limits, note); err != nil {
		return err
	}
	if err := b.restarted(ctx); err != nil || b.Elasticsearch == "" {
		return err
	}
	url, stop, err := b.server(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if settings, err = b.settings(b.month(), "", "elasticsearch"); err != nil {
		return err
	}
	var data map[string]any
	if err := json.Unmarshal(settings.JSONData, &data); err != nil {
		return err
	}
	data["jobsIndex"] = adsIndex
	if settings.JSONData, err = json.Marshal(data); err != nil {
		return err
	}
	settings.URL = url
	ads, remove, err := b.load(ctx, url)
	if err != nil {
		return err
	}
	defer remove()
	return b.sharpened(ctx, "with Elasticsearch", settings, limits, fmt.Sprintf("%d ads in it", ads))
}

// adLimits are the targets of the panels with job ads in milliseconds, 0 = none: the first time, a window that has
// moved by a second (of each kind), and one that has moved by minutes.
type adLimits struct {
	first, moved float64
	warm         [2]float64
}

// sharpened asks each kind, in a data source of its own, with the snapshots in memory and nothing else: for the first
// time, with the window moved by a second each time, so that no answer is one that is kept, and with a window of three
// weeks that moves by a minute each time: its reach begins among the month's snapshots.
func (b *bench) sharpened(ctx context.Context, how string, settings backend.DataSourceInstanceSettings, l adLimits,
	note string) error {
	const weeks = 21
	days := min(30, b.Days-2)
	for n, p := range withAds {
		source := plugin.Open(settings, func() time.Time { return now })
		err := func() error {
			defer source.Dispose()
			const all = `{"queryType":"allocation","view":"summary"}`
			if err := answer(ctx, source, all, windowEnd.AddDate(0, 0, -days-7), now); err != nil {
				return err
			}
			before := heap()
			ask := func(later time.Duration, days int) error {
				end := windowEnd.Add(later)
				return answer(ctx, source, p.json, end.AddDate(0, 0, -days), end)
			}
			asked, _, err := timed(1, func(int) error { return ask(0, days) })
			if err != nil {
				return err
			}
			held := max(0, heap()-before)
			warm, p99, err := timed(runs, func(i int) error { return ask(time.Duration(i+1)*time.Second, days) })
			if err != nil {
				return err
			}
			if err := ask(0, weeks); err != nil {
				return err
			}
			moved, movedP99, err := timed(runs, func(i int) error { return ask(time.Duration(i+1)*time.Minute, weeks) })
			if err != nil {
				return err
			}
			area := fmt.Sprintf("job ads, %d d", days)
			b.add(Figure{Area: area, What: p.name + " " + how + ", first time", Value: asked, Unit: "ms",
				Target: l.first,
				Note:   strings.TrimPrefix(note+fmt.Sprintf(", %.0f MB of memory", held/1e6), ", ")})
			b.add(Figure{Area: area, What: p.name + " " + how + ", warm", Value: warm, P99: p99, Unit: "ms",
				Target: l.warm[n]})
			b.add(Figure{Area: fmt.Sprintf("job ads, %d d", weeks), What: p.name + " " + how + ", moved by a minute",
				Value: moved, P99: movedP99, Unit: "ms", Target: l.moved})
			return nil
		}()
		if err != nil {
			return fmt.Errorf("%s %s: %w", p.name, how, err)
		}
	}
	return nil
}

// restarted asks each kind for the first time after a restart, with the cache directory of an earlier data source.
func (b *bench) restarted(ctx context.Context) error {
	cache := b.path("cache-ads")
	if err := os.RemoveAll(cache); err != nil {
		return err
	}
	settings, err := b.settings(b.month(), cache, "sqlite")
	if err != nil {
		return err
	}
	days := min(30, b.Days-2)
	for _, p := range withAds {
		first := func() (took float64, err error) {
			runtime.GC() // a new process has no garbage of the one before
			begin := time.Now()
			source := plugin.Open(settings, func() time.Time { return now })
			defer source.Dispose()
			err = moving(ctx, source, p.json, days)(0)
			return time.Since(begin).Seconds() * 1000, err
		}
		if _, err := first(); err != nil { // the earlier data source
			return err
		}
		took := make([]float64, 5)
		for i := range took {
			var err error
			if took[i], err = first(); err != nil {
				return err
			}
		}
		median, _ := percentiles(took)
		b.add(Figure{Area: fmt.Sprintf("job ads, %d d", days), What: p.name + " with the job file, after a restart",
			Value: median, Unit: "ms", Target: 400, Note: "with the cache directory"})
	}
	return nil
}

// heap is what is alive.
func heap() float64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.HeapAlloc)
}

// server returns the URL of the Elasticsearch to measure with; stop ends one that was started.
func (b *bench) server(ctx context.Context) (url string, stop func(), err error) {
	if b.Elasticsearch != StartElasticsearch {
		return b.Elasticsearch, func() {}, nil
	}
	return elastictest.Launch(ctx, "")
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
		var failed error
		added, err := adstash.Load(ctx, es, adsIndex, adstash.Refactored, func(yield func([]byte) bool) {
			failed = firstLines(filepath.Join(b.month(), name), adsInElasticsearch-n, yield)
		})
		if err = errors.Join(err, failed); err != nil {
			remove()
			return 0, nil, err
		}
		n += added
	}
	return n, remove, nil
}

// firstLines yields up to n lines of a file.
func firstLines(name string, n int, yield func([]byte) bool) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for i := 0; i < n && lines.Scan(); i++ {
		if !yield(append([]byte(nil), lines.Bytes()...)) {
			break
		}
	}
	return lines.Err()
}
