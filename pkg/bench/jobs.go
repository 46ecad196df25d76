package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8"
	"github.com/grafana/grafana-plugin-sdk-go/backend"

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
var withAds = []struct{ name, json string }{
	{"backfill availability", `{"queryType":"backfillAvailability","view":"summary","groupBy":["device"]}`},
	{"evictions", `{"queryType":"evictions","view":"summary","groupBy":["device"]}`},
}

// jobAds asks both kinds over the month without job ads, with the job file and with an Elasticsearch.
func (b *bench) jobAds(ctx context.Context) error {
	settings, err := b.settings(b.month(), "", "none")
	if err != nil {
		return err
	}
	if err := b.sharpened(ctx, "without job ads", settings, 0, 50, ""); err != nil {
		return err
	}
	note := ""
	if b.Elasticsearch == "" {
		note = "Elasticsearch is left out: none is given"
	}
	if settings, err = b.settings(b.month(), "", "sqlite"); err != nil {
		return err
	}
	if err := b.sharpened(ctx, "with the job file", settings, 6000, 100, note); err != nil || b.Elasticsearch == "" {
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
	return b.sharpened(ctx, "with Elasticsearch", settings, 6000, 100, fmt.Sprintf("%d ads in it", ads))
}

// sharpened asks each kind with the snapshots in memory, then again with the window moved on. The first kind finds no
// ad known; the second is left what only it needs. first and again are targets in milliseconds.
func (b *bench) sharpened(ctx context.Context, how string, settings backend.DataSourceInstanceSettings, first,
	again float64, note string) error {
	to := windowEnd
	days := min(30, b.Days-2)
	for _, p := range withAds {
		source := plugin.Open(settings, func() time.Time { return now })
		err := func() error {
			defer source.Dispose()
			if err := answer(ctx, source, `{"queryType":"allocation","view":"summary"}`, to.AddDate(0, 0, -days-7), now); err != nil {
				return err
			}
			before := heap()
			ask := moving(ctx, source, p.json, days)
			asked, _, err := timed(1, func(int) error { return ask(0) })
			if err != nil {
				return err
			}
			held := max(0, heap()-before)
			moved, p99, err := timed(50, func(i int) error { return ask(i + 1) })
			if err != nil {
				return err
			}
			area := fmt.Sprintf("job ads, %d d", days)
			b.add(Figure{Area: area, What: p.name + " " + how + ", first time", Value: asked, Unit: "ms", Target: first,
				Note: strings.TrimPrefix(note+fmt.Sprintf(", %.0f MB of memory", held/1e6), ", ")})
			b.add(Figure{Area: area, What: p.name + " " + how + ", afterwards", Value: moved, P99: p99, Unit: "ms",
				Target: again})
			return nil
		}()
		if err != nil {
			return fmt.Errorf("%s %s: %w", p.name, how, err)
		}
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
	dir, err := os.MkdirTemp("", "gpureports-bench-elasticsearch-")
	if err != nil {
		return "", nil, err
	}
	folder := filepath.Join("tests", "elasticsearch")
	command := exec.CommandContext(ctx, "bash", filepath.Join(folder, "start.sh"), "0", dir)
	command.Env = append(os.Environ(), "ES_OWNER_PID="+strconv.Itoa(os.Getpid())) // it ends with this process
	command.Stderr = b.Progress
	text, err := command.Output()
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("starting Elasticsearch from %s, in a checkout: %w", folder, err),
			os.RemoveAll(dir))
	}
	return strings.TrimSpace(string(text)), func() {
		_ = exec.Command("bash", filepath.Join(folder, "stop.sh"), dir).Run() // #nosec G204 -- the checkout's own script
		_ = os.RemoveAll(dir)
	}, nil
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
