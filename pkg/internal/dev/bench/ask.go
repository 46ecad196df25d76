package bench

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/chtc/gpureports/pkg/plugin"
)

// panel is a query with its name in the table.
type panel struct{ name, json string }

const byCategory = `{"queryType":"allocation","view":"timeseries","groupBy":["category"],"metrics":["allocatedPercent"]}`

var evictionsByDevice = panel{"evictions by device", `{"queryType":"evictions","view":"summary","groupBy":["device"]}`}

// panels are a query of each view that dashboards hold, except those that need job ads or queues.
var panels = []panel{
	{"allocation series by category", byCategory},
	{"allocation series by device", `{"queryType":"allocation","view":"timeseries","groupBy":["device"],"metrics":["allocated","available","free"]}`},
	{"allocation by category and device", `{"queryType":"allocation","view":"summary","groupBy":["category","device"]}`},
	{"allocation now", `{"queryType":"allocation","view":"current"}`},
	{"state timeline", `{"queryType":"allocation","view":"stateTimeline","filter":{"machines":["/gpu.*1\\./"]}}`},
	{"machines", `{"queryType":"allocation","view":"machines"}`},
	{"health", `{"queryType":"allocation","view":"health"}`},
	{"collector gaps", `{"queryType":"allocation","view":"annotations"}`},
	{"hours by category and user", `{"queryType":"userHours","view":"summary","groupBy":["category"]}`},
	{"hours series by user", `{"queryType":"userHours","view":"timeseries","groupBy":["user"]}`},
	{"backfill by device", `{"queryType":"backfillAvailability","view":"summary","groupBy":["device"]}`},
	{"backfill series", `{"queryType":"backfillAvailability","view":"timeseries"}`},
	{"vacancies", `{"queryType":"backfillAvailability","view":"periods"}`},
	{"transitions", `{"queryType":"backfillAvailability","view":"transitions"}`},
	{"tenure curve", `{"queryType":"backfillAvailability","view":"survival","duration":"tenure"}`},
	{"backfill by hour of the week", `{"queryType":"backfillAvailability","view":"hourOfWeek"}`},
	evictionsByDevice,
	{"evictions series", `{"queryType":"evictions","view":"timeseries"}`},
	{"eviction events", `{"queryType":"evictions","view":"events"}`},
	{"eviction curve", `{"queryType":"evictions","view":"survival"}`},
}

// withAds are the panels of the kinds that job ads, usage and queues belong to.
var withAds = []panel{
	{"backfill by device", `{"queryType":"backfillAvailability","view":"summary","groupBy":["device"]}`},
	evictionsByDevice,
	{"utilization by user", `{"queryType":"utilization","view":"summary","groupBy":["user"]}`},
	{"utilization series by device", `{"queryType":"utilization","groupBy":["device"],"metrics":["busy","idle"]}`},
	{"waits by user", `{"queryType":"demand","view":"summary","groupBy":["user"],"metrics":["waits","medianWaitHours"]}`},
}

// windowEnd is the end of the windows of panels that are queried repeatedly.
var windowEnd = now.Add(-36 * time.Hour)

// settings of a data source over a directory. jobs: "none", "sqlite" for the directory's jobs.db, or "elasticsearch".
func settings(dir, cache, jobs string, more map[string]any) (backend.DataSourceInstanceSettings, error) {
	absolute, err := filepath.Abs(dir)
	if err == nil && cache != "" {
		cache, err = filepath.Abs(cache)
	}
	if err != nil {
		return backend.DataSourceInstanceSettings{}, err
	}
	all := map[string]any{"snapshotDir": absolute, "cacheDir": cache, "cacheDiskMB": 16384, "cacheMaxMB": 4096,
		"jobs": jobs}
	maps.Copy(all, more)
	text, err := json.Marshal(all)
	return backend.DataSourceInstanceSettings{UID: "bench", Name: "bench", Updated: now, JSONData: text}, err
}

// open opens a data source that reads nothing in advance. Its time comes from clock.
func (b *bench) open(dir, cache, jobs string, clock func() time.Time) (*plugin.Datasource, error) {
	s, err := settings(dir, cache, jobs, nil)
	if err != nil {
		return nil, err
	}
	return plugin.Open(s, clock), nil
}

func atEnd() time.Time { return now }

// ask runs one query over a number of days, and fails if its answer is an error.
func ask(ctx context.Context, source backend.QueryDataHandler, query string, days int, to time.Time) error {
	_, err := framesOf(ctx, source, query, to.AddDate(0, 0, -days), to)
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

// moving repeats a query over a number of days, with a window that is a second later each time, so that no answer
// is cached.
func moving(ctx context.Context, source backend.QueryDataHandler, query string, days, runs int) (timing, error) {
	if err := ask(ctx, source, query, days, windowEnd); err != nil {
		return timing{}, err
	}
	return timed(runs, func(i int) error {
		return ask(ctx, source, query, days, windowEnd.Add(time.Duration(i+1)*time.Second))
	})
}

// firstOf opens a data source and asks it once.
func (b *bench) firstOf(ctx context.Context, dir, cache, jobs, query string, days int) error {
	source, err := b.open(dir, cache, jobs, atEnd)
	if err != nil {
		return err
	}
	defer source.Dispose()
	return ask(ctx, source, query, days, windowEnd)
}
