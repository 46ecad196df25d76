package reliability

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/host"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/plugin"
)

// small is a small pool of some days over a change of month, without the collector's own faults.
func small(change ...func(*samplepool.Options)) samplepool.Options {
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone = 6, 24, "UTC"
	o.Start, o.End = time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range change {
		c(&o)
	}
	return o
}

// write makes a pool's files in a directory of their own.
func write(t testing.TB, o samplepool.Options) (dir string) {
	t.Helper()
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir = t.TempDir()
	require.NoError(t, p.Write(t.Context(), dir))
	return dir
}

// settings of a data source with this jsonData.
func settings(t testing.TB, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	text, err := json.Marshal(jsonData)
	require.NoError(t, err)
	return backend.DataSourceInstanceSettings{ID: 1, UID: "reliability", Name: "reliability", Type: plugin.ID,
		JSONData: text, Updated: time.Unix(1, 0)}
}

// open opens a data source at a moment.
func open(t testing.TB, now time.Time, jsonData map[string]any) *plugin.Datasource {
	t.Helper()
	d := plugin.Open(settings(t, jsonData), func() time.Time { return now })
	t.Cleanup(d.Dispose)
	return d
}

// views is a query of each kind and view. health is left out where answers of two moments are compared.
func views() (queries []string) {
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			if view.Name != "health" {
				queries = append(queries, fmt.Sprintf(`{"queryType": %q, "view": %q}`, kind.Name, view.Name))
			}
		}
	}
	return queries
}

// ask asks queries over a window.
func ask(t testing.TB, source backend.QueryDataHandler, from, to time.Time, queries ...string) []backend.DataResponse {
	t.Helper()
	return askIn(t, t.Context(), source, from, to, queries...)
}

func askIn(t testing.TB, ctx context.Context, source backend.QueryDataHandler, from, to time.Time,
	queries ...string) []backend.DataResponse {
	t.Helper()
	response, err := source.QueryData(ctx, request(from, to, queries...))
	require.NoError(t, err)
	answers := make([]backend.DataResponse, len(queries))
	for i := range queries {
		answers[i] = response.Responses[fmt.Sprint(i)]
	}
	return answers
}

func request(from, to time.Time, queries ...string) *backend.QueryDataRequest {
	r := &backend.QueryDataRequest{}
	for i, q := range queries {
		r.Queries = append(r.Queries, backend.DataQuery{RefID: fmt.Sprint(i), JSON: json.RawMessage(q),
			Interval: time.Minute, MaxDataPoints: 1000, TimeRange: backend.TimeRange{From: from, To: to}})
	}
	return r
}

// figures is an answer's JSON without what the way of computing may change: timings, the notices on the files, and the
// links to the data source, which answers made without one have not.
func figures(t testing.TB, answer backend.DataResponse) string {
	t.Helper()
	require.NoError(t, answer.Error)
	var text strings.Builder
	for _, frame := range answer.Frames {
		c := *frame
		if c.Meta != nil {
			meta := *c.Meta
			meta.Stats, meta.Notices = nil, nil
			c.Meta = &meta
		}
		c.Fields = slices.Clone(c.Fields)
		for i, f := range c.Fields {
			if f.Config != nil && f.Config.Links != nil {
				own, config := *f, *f.Config
				config.Links = nil
				own.Config = &config
				c.Fields[i] = &own
			}
		}
		document, err := json.Marshal(&c)
		require.NoError(t, err)
		text.Write(append(document, '\n'))
	}
	return text.String()
}

// notices are an answer's notices and statistics, one per line.
func notices(answer backend.DataResponse) string { return golden.Told(answer.Frames) }

// empty reports whether an answer has no data.
func empty(frames data.Frames) bool {
	return !slices.ContainsFunc(frames, func(f *data.Frame) bool { return len(f.Fields) > 0 })
}

// copyDir copies a directory's files into a new one.
func copyDir(t testing.TB, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// binary is the plugin's own, built once.
var binary = sync.OnceValues(func() (string, error) {
	return host.Build(context.Background(), scratch)
})

// start starts the binary as Grafana does, with more of an environment.
func start(t testing.TB, environment ...string) *host.Process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	var log bytes.Buffer
	process, err := host.Start(path, &log, environment...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ended := process.Exited()
		process.Close()
		if t.Failed() && ended { // it was not ended by the test: its last words
			text := log.String()
			t.Logf("the plugin ended: …%s", text[max(0, len(text)-20_000):])
		}
	})
	return process
}

// gauges are the process's own measures.
type gauges struct {
	goroutines, handles int
	residentMB          float64
}

func measure(t testing.TB, process *host.Process) (g gauges) {
	t.Helper()
	text, err := process.CollectMetrics(context.Background())
	require.NoError(t, err)
	value := func(name string) float64 {
		_, rest, found := strings.Cut("\n"+string(text), "\n"+name+" ")
		require.True(t, found, name)
		line, _, _ := strings.Cut(rest, "\n")
		v, err := strconv.ParseFloat(line, 64)
		require.NoError(t, err, name)
		return v
	}
	return gauges{int(value("go_goroutines")), int(value("process_open_fds")),
		value("process_resident_memory_bytes") / (1 << 20)}
}

// saved returns a data source's settings as they are saved for the n-th time.
func saved(t testing.TB, n int, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	s := settings(t, jsonData)
	s.ID, s.UID, s.Updated = int64(n), fmt.Sprint("uid", n), time.Unix(int64(n), 0)
	s.Type = plugin.ID
	return s
}

// files below a directory whose names end in a suffix.
func files(t testing.TB, dir, suffix string) (paths []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, suffix) {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

var (
	scratch string // a directory for the whole run

	long   = flag.Bool("long", false, "run the long version, which takes about half an hour")
	report = flag.String("report", "", "a Markdown file whose figures are replaced by those of this run")
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.DefaultLogger = log.NewNullLogger() // answers are what matters
	backend.Logger = log.DefaultLogger
	var err error
	if scratch, err = os.MkdirTemp("", "gpureports-reliability-"); err != nil {
		panic(err)
	}
	code := m.Run()
	jobstest.StopServers()
	os.RemoveAll(scratch)
	if code == 0 && *report != "" {
		if err := writeFigures(*report); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

var (
	figuresLock sync.Mutex
	figureLines []string
)

// figure notes what a test has measured, for the report.
func figure(what, format string, args ...any) {
	figuresLock.Lock()
	defer figuresLock.Unlock()
	line := fmt.Sprintf("| %s | %s |", what, fmt.Sprintf(format, args...))
	figureLines = append(figureLines, line)
	if testing.Verbose() {
		fmt.Println(line)
	}
}

// writeFigures puts the figures between the marks of the report.
func writeFigures(path string) error {
	const begin, end = "<!-- figures of the last run -->\n", "<!-- end of figures -->"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no marks %s%s", path, begin, end)
	}
	kind := "short"
	if *long {
		kind = "long"
	}
	head := fmt.Sprintf("The %s version on %s:\n\n| what | figure |\n|---|---|\n", kind, machine())
	return os.WriteFile(path, []byte(before+begin+head+strings.Join(figureLines, "\n")+"\n"+end+after), 0o644)
}

// machine says on what the figures were taken.
func machine() string {
	return fmt.Sprintf("%s/%s with %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
