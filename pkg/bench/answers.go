package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/plugin/host"
	"github.com/chtc/gpureports/pkg/pool"
)

const byCategory = `{"queryType":"allocation","view":"timeseries","groupBy":["category"],"metrics":["allocatedPercent"]}`

const evictionsByDevice = `{"queryType":"evictions","view":"summary","groupBy":["device"]}`

// panel is a query with its name in the table.
type panel struct{ name, json string }

// panels are a query of each kind and view, and those that dashboards hold.
var panels = []panel{
	{"allocation series by category", byCategory},
	{"allocation series by device, three metrics", `{"queryType":"allocation","view":"timeseries","groupBy":["device"],"metrics":["allocated","available","free"]}`},
	{"allocation table by category and device", `{"queryType":"allocation","view":"summary","groupBy":["category","device"]}`},
	{"allocation now", `{"queryType":"allocation","view":"current"}`},
	{"state timeline of a machine", `{"queryType":"allocation","view":"stateTimeline","filter":{"machines":["/gpu.*1\\./"]}}`},
	{"machines", `{"queryType":"allocation","view":"machines"}`},
	{"health", `{"queryType":"allocation","view":"health"}`},
	{"collector gaps", `{"queryType":"allocation","view":"annotations"}`},
	{"hours by category and user", `{"queryType":"userHours","view":"summary","groupBy":["category"]}`},
	{"hours series by user", `{"queryType":"userHours","view":"timeseries","groupBy":["user"]}`},
	{"backfill availability by device", `{"queryType":"backfillAvailability","view":"summary","groupBy":["device"]}`},
	{"backfill availability series", `{"queryType":"backfillAvailability","view":"timeseries"}`},
	{"vacancies", `{"queryType":"backfillAvailability","view":"periods"}`},
	{"transitions", `{"queryType":"backfillAvailability","view":"transitions"}`},
	{"tenure curve", `{"queryType":"backfillAvailability","view":"survival","duration":"tenure"}`},
	{"backfill by hour of the week", `{"queryType":"backfillAvailability","view":"hourOfWeek"}`},
	{"eviction measures by device", evictionsByDevice},
	{"evictions series", `{"queryType":"evictions","view":"timeseries"}`},
	{"eviction events", `{"queryType":"evictions","view":"events"}`},
	{"eviction curve", `{"queryType":"evictions","view":"survival"}`},
}

// isBackfill reports whether a panel has a target of its own: runs and periods are built over 14 days more.
func isBackfill(query string) bool {
	var q struct{ QueryType string }
	return json.Unmarshal([]byte(query), &q) == nil &&
		(q.QueryType == "backfillAvailability" || q.QueryType == "evictions")
}

// settings of a data source over a directory. jobs: "none", or "sqlite" for the directory's jobs.db.
func (b *bench) settings(dir, cache, jobs string) (backend.DataSourceInstanceSettings, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return backend.DataSourceInstanceSettings{}, err
	}
	if cache != "" {
		if cache, err = filepath.Abs(cache); err != nil {
			return backend.DataSourceInstanceSettings{}, err
		}
	}
	return instance(map[string]any{"snapshotDir": absolute, "cacheDir": cache, "cacheDiskMB": 16384, "jobs": jobs}, nil)
}

// instance is a data source with settings beside those that are the same for all. Its zone is the default, as that of
// the segments.
func instance(jsonData map[string]any, secrets map[string]string) (backend.DataSourceInstanceSettings, error) {
	all := map[string]any{"cacheMaxMB": 4096}
	maps.Copy(all, jsonData)
	text, err := json.Marshal(all)
	return backend.DataSourceInstanceSettings{UID: "bench", Name: "bench", Updated: now, JSONData: text,
		DecryptedSecureJSONData: secrets}, err
}

// source opens a data source that reads nothing ahead.
func (b *bench) source(dir, cache string) (*plugin.Datasource, error) {
	settings, err := b.settings(dir, cache, "none")
	if err != nil {
		return nil, err
	}
	return plugin.Open(settings, func() time.Time { return now }), nil
}

// answer asks one query and fails when its answer is an error.
func answer(ctx context.Context, source backend.QueryDataHandler, query string, from, to time.Time) error {
	_, err := framesOf(ctx, source, query, from, to)
	return err
}

// framesOf asks one query and returns its answer.
func framesOf(ctx context.Context, source backend.QueryDataHandler, query string, from, to time.Time) (data.Frames,
	error) {
	var kind struct{ QueryType string }
	if err := json.Unmarshal([]byte(query), &kind); err != nil {
		return nil, err
	}
	response, err := source.QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{{
		RefID: "A", QueryType: kind.QueryType, JSON: []byte(query), Interval: to.Sub(from) / 1000, MaxDataPoints: 1000,
		TimeRange: backend.TimeRange{From: from, To: to},
	}}})
	if err != nil {
		return nil, err
	}
	return response.Responses["A"].Frames, response.Responses["A"].Error
}

// rowsRead returns how many rows of snapshots were read for an answer.
func rowsRead(answer data.Frames) float64 {
	for _, stat := range answer[0].Meta.Stats {
		if stat.DisplayName == "Rows read" {
			return stat.Value
		}
	}
	return math.NaN()
}

// windowEnd is where the windows of panels end that are asked again and again.
var windowEnd = now.Add(-36 * time.Hour)

// moving asks a query over so many days, with a window that lies i minutes later.
func moving(ctx context.Context, source backend.QueryDataHandler, query string, days int) func(i int) error {
	return func(i int) error {
		end := windowEnd.Add(time.Duration(i) * time.Minute)
		return answer(ctx, source, query, end.AddDate(0, 0, -days), end)
	}
}

// runs is how often a warm panel is asked.
const runs = 200

// warmMonth asks every panel over the windows that the month holds: again and again, and with the window moved on each
// time.
func (b *bench) warmMonth(ctx context.Context) error {
	source, err := b.source(b.month(), "")
	if err != nil {
		return err
	}
	defer source.Dispose()
	for _, w := range []struct {
		name string
		days int
	}{{"24 h", 1}, {"7 d", 7}, {"30 d", min(30, b.Days-2)}} {
		if err := b.warm(ctx, source, w.name, w.days, runs, 5); err != nil {
			return err
		}
	}
	return nil
}

// warm asks every panel. series is the target of the allocation series, in milliseconds; other views may take three
// times it.
func (b *bench) warm(ctx context.Context, source *plugin.Datasource, name string, days, runs int,
	series float64) error {
	for i, p := range panels {
		target := 3 * series
		switch {
		case i == 0:
			target = series
		case isBackfill(p.json) && days <= 30:
			target = 50
		}
		ask := moving(ctx, source, p.json, days)
		if err := ask(0); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		moved, p99, err := timed(runs, func(i int) error { return ask(i + 1) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		again, _, err := timed(runs, func(int) error { return ask(0) })
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.add(Figure{Area: "warm, " + name, What: p.name, Value: moved, P99: p99, Unit: "ms", Target: target,
			Note: fmt.Sprintf("the same again %.2f ms", again)})
	}
	return nil
}

// viewers is how many people open a dashboard at the same moment, and bursts how often that is measured.
const viewers, bursts = 10, 5

// manyViewers lets viewers open a dashboard of 20 panels at the same moment: 200 requests, over 24 hours and 30 days.
func (b *bench) manyViewers(ctx context.Context) error {
	what := fmt.Sprintf("%d panels at once, 24 h and 30 d", viewers*len(panels))
	for _, of := range []struct {
		what      string
		around    bool    // the days around the windows are in memory, too
		p99, heap float64 // that are wanted; 0: no matter
	}{{what, true, 250, 200}, {what + ", the days around them to be read", false, 0, 0}} {
		var medians, p99s, heaps []float64
		for range bursts {
			runtime.GC() // a new process has no garbage of the one before
			took, heap, err := b.burst(ctx, of.around)
			if err != nil {
				return err
			}
			median, p99 := percentiles(took)
			medians, p99s, heaps = append(medians, median), append(p99s, p99), append(heaps, heap)
		}
		b.add(Figure{Area: "many viewers", What: of.what + ": the 99th percentile", Value: pool.Median(p99s), Unit: "ms",
			Target: of.p99, Note: fmt.Sprintf("median %.3g ms, of %d data sources that had one panel before",
				pool.Median(medians), bursts)})
		b.add(Figure{Area: "many viewers", What: of.what + ": heap after it", Value: pool.Median(heaps), Unit: "MB",
			Target: of.heap, Note: fmt.Sprintf("at most %.3g MB", slices.Max(heaps))})
	}
	return nil
}

// burst returns what the panels of all viewers took in milliseconds, in a new data source, and the megabytes of the
// heap after them. The snapshots of the windows are in memory; those around them, which panels about runs look at as
// well, only if asked for: the plugin reads days ahead.
func (b *bench) burst(ctx context.Context, around bool) (took []float64, heap float64, err error) {
	source, err := b.source(b.month(), "")
	if err != nil {
		return nil, 0, err
	}
	defer source.Dispose()
	to := windowEnd
	from, until := to.AddDate(0, 0, -min(30, b.Days-2)), to
	if around {
		from, until = from.AddDate(0, 0, -7), now
	}
	if err := answer(ctx, source, byCategory, from, until); err != nil {
		return nil, 0, err
	}
	group, ctx := parallel.WithContext(ctx)
	took = make([]float64, viewers*len(panels))
	errs := make([]error, len(took))
	for viewer := range viewers {
		for i, p := range panels {
			group.Go(func() error {
				n := viewer*len(panels) + i
				end := to.Add(time.Duration(viewer) * time.Second)
				begin := time.Now()
				errs[n] = answer(ctx, source, p.json, end.AddDate(0, 0, -[]int{1, min(30, b.Days-2)}[rand.IntN(2)]), end)
				took[n] = time.Since(begin).Seconds() * 1000
				return nil
			})
		}
	}
	err = errors.Join(group.Wait(), errors.Join(errs...))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return took, float64(memory.HeapAlloc) / 1e6, err
}

// built starts the plugin's binary and lets do ask its data source over a directory. Without a binary it does nothing.
func (b *bench) built(dir, cache string, do func(*host.Process, *host.Source) error) error {
	if b.Binary == "" {
		return nil
	}
	settings, err := b.settings(dir, cache, "none")
	if err != nil {
		return err
	}
	return b.start(settings, do)
}

// start is built with settings of its own.
func (b *bench) start(settings backend.DataSourceInstanceSettings,
	do func(*host.Process, *host.Source) error) error {
	process, err := host.Start(b.Binary, io.Discard)
	if err != nil {
		return err
	}
	defer process.Close()
	return do(process, process.Source(settings))
}

// protocol measures what the plugin protocol adds: it asks the built binary, as Grafana does, and the code itself.
func (b *bench) protocol(ctx context.Context) error {
	return b.built(b.month(), "", func(_ *host.Process, asked *host.Source) error {
		return b.compare(ctx, asked)
	})
}

func (b *bench) compare(ctx context.Context, asked backend.QueryDataHandler) error {
	source, err := b.source(b.month(), "")
	if err != nil {
		return err
	}
	defer source.Dispose()
	to := windowEnd
	var medians [2]float64
	for k, handler := range []backend.QueryDataHandler{source, asked} {
		ask := func(int) error { return answer(ctx, handler, byCategory, to.AddDate(0, 0, -min(30, b.Days-2)), to) }
		if err := ask(0); err != nil {
			return err
		}
		if medians[k], _, err = timed(runs, ask); err != nil {
			return err
		}
	}
	b.add(Figure{Area: "plugin protocol", What: "added to a panel over 30 d", Value: medians[1] - medians[0], Unit: "ms",
		Target: 10, Note: fmt.Sprintf("%.2f ms in all", medians[1])})
	return nil
}
