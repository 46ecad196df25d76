package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

var (
	directory string // of the binary

	// running is the plugin's own binary, built and started once, as Grafana starts it.
	running = sync.OnceValues(func() (*Process, error) {
		binary, err := Build(context.Background(), directory)
		if err != nil {
			return nil, err
		}
		return Start(binary, io.Discard)
	})
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger()
	backend.Logger = log.DefaultLogger
	var err error
	if directory, err = os.MkdirTemp("", "gpureports-host-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if process, err := running(); err == nil {
		process.Close()
	}
	os.RemoveAll(directory)
	os.Exit(code)
}

func process(t *testing.T) *Process {
	t.Helper()
	p, err := running()
	require.NoError(t, err)
	return p
}

var saved int

// source is a data source of the running plugin, with settings saved just now.
func source(t *testing.T, jsonData map[string]any) (*Source, backend.DataSourceInstanceSettings) {
	t.Helper()
	text, err := json.Marshal(jsonData)
	require.NoError(t, err)
	saved++
	settings := backend.DataSourceInstanceSettings{ID: int64(saved), UID: fmt.Sprint("uid", saved), Type: plugin.ID,
		Name: t.Name(), JSONData: text, Updated: time.Unix(int64(saved), 0)}
	return process(t).Source(settings), settings
}

// ask asks queries over a window; each carries its position as refId.
func ask(t *testing.T, source backend.QueryDataHandler, window pool.Window, queries ...string) []backend.DataResponse {
	t.Helper()
	request := &backend.QueryDataRequest{}
	for i, q := range queries {
		request.Queries = append(request.Queries, backend.DataQuery{RefID: fmt.Sprint(i), JSON: json.RawMessage(q),
			Interval: time.Minute, MaxDataPoints: 1000,
			TimeRange: backend.TimeRange{From: pool.Time(window.From), To: pool.Time(window.To)}})
	}
	response, err := source.QueryData(context.Background(), request)
	require.NoError(t, err)
	answers := make([]backend.DataResponse, len(queries))
	for i := range queries {
		answers[i] = response.Responses[fmt.Sprint(i)]
	}
	return answers
}

// everyView is a query of each kind and view, with each grouping by itself.
func everyView() (queries []string) {
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			add := func(more string) {
				queries = append(queries, fmt.Sprintf(`{"queryType": %q, "view": %q%s}`, kind.Name, view.Name, more))
			}
			add("")
			lists := view.Groups // the only ones
			for i := 0; view.Groups == nil && i < len(view.GroupBy); i++ {
				lists = append(lists, view.GroupBy[i:i+1])
			}
			for _, by := range lists {
				add(`, "groupBy": ["` + strings.Join(by, `", "`) + `"]`)
			}
		}
	}
	return queries
}

// withoutWork are frames as JSON without the parts that differ from one computation to the next: its time, and the
// state of the caches.
func withoutWork(t *testing.T, frames data.Frames) string {
	t.Helper()
	var text strings.Builder
	for _, frame := range frames {
		c := *frame
		c.RefID = ""
		if c.Meta != nil {
			meta := *c.Meta
			meta.Stats = slices.DeleteFunc(slices.Clone(meta.Stats), func(s data.QueryStat) bool {
				return s.Unit == "ms" || s.DisplayName == "Rows read" || strings.HasPrefix(s.DisplayName, "Days ")
			})
			c.Meta = &meta
		}
		document, err := json.Marshal(&c)
		require.NoError(t, err)
		text.Write(document)
		text.WriteByte('\n')
	}
	return text.String()
}

// What the binary answers over the plugin protocol is what the library answers, which the command line uses.
func TestBinaryAnswersAsTheLibrary(t *testing.T) {
	for _, name := range golden.Pools {
		jsonData := map[string]any{"snapshotDir": golden.Pool(t, name), "jobs": "sqlite",
			"timezone": map[string]string{"pool-a": "UTC", "pool-b": "America/Chicago"}[name]}
		binary, settings := source(t, jsonData)
		library := plugin.Open(settings, time.Now)
		var expected struct {
			Windows map[string]struct {
				Common struct{ Window struct{ Start, End string } }
			}
		}
		golden.Expected(t, name, &expected)
		require.NotEmpty(t, expected.Windows)
		for _, w := range expected.Windows {
			window := golden.Window(t, w.Common.Window.Start, w.Common.Window.End)
			queries := slices.DeleteFunc(everyView(), func(q string) bool {
				return strings.Contains(q,
					`"health"`)
			}) // its figures grow with the clock
			got, want := ask(t, binary, window, queries...), ask(t, library, window, queries...)
			for i, q := range queries {
				require.NoError(t, want[i].Error, q)
				require.NoError(t, got[i].Error, q)
				require.Equal(t, backend.StatusOK, got[i].Status, q)
				require.Equal(t, withoutWork(t, want[i].Frames), withoutWork(t, got[i].Frames), q)
				for _, frame := range got[i].Frames {
					require.Equal(t, fmt.Sprint(i), frame.RefID)
				}
			}
		}
		library.Dispose()
	}
}

func TestBinaryHealthResourcesAndMetrics(t *testing.T) {
	binary, _ := source(t, map[string]any{"snapshotDir": golden.Pool(t, "pool-a"), "jobs": "sqlite"})
	health, err := binary.As("Admin").CheckHealth(context.Background())
	require.NoError(t, err)
	require.Equal(t, backend.HealthStatusOk, health.Status, health.Message)
	require.Contains(t, health.Message, "Snapshots: newest 2025-10-0")
	require.True(t, json.Valid(health.JSONDetails))

	response, err := binary.Resource(context.Background(), "values/slots", "")
	require.NoError(t, err)
	require.Equal(t, 200, response.Status)
	require.JSONEq(t, `[{"text": "Real", "value": "Real"}, {"text": "Backfill", "value": "Backfill"}]`,
		string(response.Body))
	response, err = binary.Resource(context.Background(), "values/slots",
		"filter=%7B%22slots%22%3A%5B%22Backfill%22%5D%7D")
	require.NoError(t, err)
	require.JSONEq(t, `[{"text": "Backfill", "value": "Backfill"}]`, string(response.Body), "parameters arrive")

	metrics, err := process(t).CollectMetrics(context.Background())
	require.NoError(t, err)
	ask(t, binary, pool.Window{From: 0, To: 1}, `{"queryType": "weather"}`)
	after, err := process(t).CollectMetrics(context.Background())
	require.NoError(t, err)
	require.NotEqual(t, count(metrics, "unknown"), count(after, "unknown"))
}

func count(metrics []byte, kind string) string {
	for _, line := range strings.Split(string(metrics), "\n") {
		if strings.HasPrefix(line, `gpureports_queries_total{kind="`+kind+`"`) {
			return line
		}
	}
	return ""
}
