// Package bench measures, on made-up pools, the times that a user notices, next to the required bounds. Its figures are
// medians on the machine that it runs on; it asserts nothing.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

// Options choose the pool: they are the flags of the command.
type Options struct {
	Machines int  `help:"Machines of the pool." default:"170"`
	GPUs     int  `help:"GPUs of the pool." default:"900" name:"gpus"`
	Days     int  `help:"Days of the longest window." default:"365"` // up to 32 also as files of SQLite
	Large    bool `help:"Also measure 10,000 GPUs."`

	Dir    string `type:"path" placeholder:"DIR" help:"Where the pools are made, and found again the next time. Default: a temporary directory."`
	Binary string `name:"plugin" type:"existingfile" placeholder:"FILE" help:"The plugin's binary. Default: built from this checkout into dist/."`
	// an index of its own is made in it, and removed
	Elasticsearch string `name:"elasticsearch" env:"ELASTICSEARCH_URL" placeholder:"URL" help:"An Elasticsearch to measure with: its URL, or 'start' for that of this checkout's tests. Default: left out."`

	Only     string    `help:"Measure only the steps that have this in their name." placeholder:"TEXT"`
	Runs     int       `help:"How often a warm panel is asked." default:"50"`
	Progress io.Writer `kong:"-"`
}

// Figure is one line of the table.
type Figure struct {
	What    string
	Value   float64 // a median where there are several runs
	Unit    string
	CPU     float64 // the processor time of one run in milliseconds, on all cores
	Bound   float64
	AtLeast bool // the bound is the least, not the most
	Note    string
}

// Missed reports whether the figure is outside its bound.
func (f Figure) Missed() bool { return f.AtLeast != (f.Value > f.Bound) && f.Value != f.Bound }

// Run makes the pools and measures. A figure that cannot be taken is an error.
func Run(ctx context.Context, o Options) ([]Figure, error) {
	if o.Days < 32 {
		return nil, pool.BadQuery("bench: %d days; 32 are the least: a month of files, and days before it", o.Days)
	}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "gpureports-bench-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		o.Dir = dir
	}
	b := &bench{Options: o}
	for _, step := range []struct {
		name string
		run  func(context.Context)
	}{
		{files, b.makeMonth},
		{"warm panels", b.warm},
		{"after a new snapshot", b.newSnapshot},
		{"owners and failing machines", b.questions},
		{"after a restart", b.restart},
		{"nothing cached", b.nothingCached},
		{"job ads in Elasticsearch", b.elasticsearch},
		{"plain SQL", b.plainSQL},
		{"many clients", b.clients},
		{"panels at once", b.atOnce},
		{"open dashboards", b.openDashboards},
		{"a year", b.year},
		{"10,000 GPUs", b.large},
	} {
		if step.name != files && !strings.Contains(step.name, o.Only) {
			continue
		}
		fmt.Fprintf(o.Progress, "%s …\n", step.name)
		if err := attempt(func() { step.run(ctx) }); err != nil {
			return b.figures, fmt.Errorf("measuring %s: %w", step.name, err)
		}
		runtime.GC()
	}
	return b.figures, nil
}

// failure is what a step ends with that cannot take its figures.
type failure struct{ error }

// check ends a step with an error, if there is one.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is a value without an error.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// attempt runs a step, and returns the error that it ends with.
func attempt(step func()) (err error) {
	defer func() {
		switch ended := recover().(type) {
		case nil:
		case failure:
			err = ended.error
		default:
			panic(ended)
		}
	}()
	step()
	return nil
}

// files is the step that the others need.
const files = "making a month of files"

type bench struct {
	Options
	figures []Figure
}

func (b *bench) add(f Figure) { b.figures = append(b.figures, f) }

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.Dir}, parts...)...)
}

// monthDays is the window over the month of files.
func (b *bench) monthDays() int { return min(30, b.Days-2) }

// timing is what runs of the same work take, in milliseconds.
type timing struct{ median, p99, cpu float64 }

// timed runs f the given number of times. Its processor time is the average of all runs.
func timed(runs int, f func(i int)) (t timing) {
	took := make([]float64, runs)
	before := processorTime()
	for i := range took {
		begin := time.Now()
		f(i)
		took[i] = time.Since(begin).Seconds() * 1000
	}
	t.cpu = (processorTime() - before).Seconds() * 1000 / float64(runs)
	t.median = pool.Median(took) // sorts them
	t.p99 = took[min(runs-1, runs*99/100)]
	return t
}

// prepared runs f the given number of times, each time after a preparation that does not count. Its processor time is
// the median.
func prepared(runs int, prepare, f func()) timing {
	took, cpu := make([]float64, runs), make([]float64, runs)
	for i := range took {
		prepare()
		once := timed(1, func(int) { f() })
		took[i], cpu[i] = once.median, once.cpu
	}
	return timing{median: pool.Median(took), cpu: pool.Median(cpu)}
}

// milliseconds is a timing as a figure.
func (t timing) milliseconds(what string, bound float64, note string) Figure {
	return Figure{What: what, Value: t.median, Unit: "ms", CPU: t.cpu, Bound: bound, Note: note}
}

// slowest measures several panels and adds the one that takes longest.
func (b *bench) slowest(what string, bound float64, panels []panel, measure func(panel) timing) {
	var worst timing
	var name string
	for _, p := range panels {
		if t := measure(p); t.median >= worst.median {
			worst, name = t, p.name
		}
	}
	b.add(worst.milliseconds(what, bound, "the slowest: "+name))
}

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
func settings(dir, cache, jobs string, more map[string]any) backend.DataSourceInstanceSettings {
	if cache != "" {
		cache = must(filepath.Abs(cache))
	}
	all := map[string]any{"snapshotDir": must(filepath.Abs(dir)), "cacheDir": cache, "cacheDiskMB": 16384,
		"cacheMaxMB": 4096, "jobs": jobs}
	maps.Copy(all, more)
	return backend.DataSourceInstanceSettings{UID: "bench", Name: "bench", Updated: now, JSONData: must(json.Marshal(all))}
}

// open opens a data source that reads nothing in advance. Its time comes from clock.
func (b *bench) open(dir, cache, jobs string, clock func() time.Time) *plugin.Datasource {
	return plugin.Open(settings(dir, cache, jobs, nil), clock)
}

func atEnd() time.Time { return now }

// ask runs one query over a number of days; an answer that is an error ends the step.
func ask(ctx context.Context, source backend.QueryDataHandler, query string, days int, to time.Time) {
	check(answer(ctx, source, query, days, to))
}

// answer runs one query over a number of days, and returns the error of its answer.
func answer(ctx context.Context, source backend.QueryDataHandler, query string, days int, to time.Time) error {
	var kind struct{ QueryType string }
	if err := json.Unmarshal([]byte(query), &kind); err != nil {
		return err
	}
	from := to.AddDate(0, 0, -days)
	response, err := source.QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{{
		RefID: "A", QueryType: kind.QueryType, JSON: []byte(query), Interval: to.Sub(from) / 1000, MaxDataPoints: 1000,
		TimeRange: backend.TimeRange{From: from, To: to},
	}}})
	if err == nil {
		err = response.Responses["A"].Error
	}
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// moving repeats a query over a number of days, with a window that is a second later each time, so that no answer
// is cached.
func moving(ctx context.Context, source backend.QueryDataHandler, query string, days, runs int) timing {
	ask(ctx, source, query, days, windowEnd)
	return timed(runs, func(i int) { ask(ctx, source, query, days, windowEnd.Add(time.Duration(i+1)*time.Second)) })
}

// firstOf opens a data source and asks it once.
func (b *bench) firstOf(ctx context.Context, dir, cache, jobs, query string, days int) {
	source := b.open(dir, cache, jobs, atEnd)
	defer source.Dispose()
	ask(ctx, source, query, days, windowEnd)
}

// Print writes the figures as a Markdown table; bounds that are missed are bold.
func Print(w io.Writer, figures []Figure) error {
	_, err := fmt.Fprint(w, "| | figure | CPU time | held to | |\n|---|--:|--:|--:|---|\n")
	for _, f := range figures {
		bound := f.bound()
		if f.Missed() {
			bound = "**" + bound + "**"
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", f.What, f.value(), f.cpu(), bound, f.Note)
		}
	}
	return err
}

func (f Figure) value() string { return digits(f.Value) + " " + f.Unit }

func (f Figure) cpu() string {
	if f.CPU == 0 {
		return ""
	}
	return digits(f.CPU) + " ms"
}

func (f Figure) bound() string {
	if f.AtLeast {
		return fmt.Sprintf("≥ %g", f.Bound)
	}
	return fmt.Sprintf("≤ %g", f.Bound)
}

// digits leaves three that count, and all before the point.
func digits(value float64) string {
	if value >= 100 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
