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

	"github.com/chtc/gpureports/pkg/internal/dev/buckettest"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/plugintest"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots/parquet"
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

// askAlert asks as the alert engine does: interval 1 s, 43,200 points, its header in the case that Go gives it.
func askAlert(t *testing.T, source *Source, window pool.Window, model string) backend.DataResponse {
	t.Helper()
	response, err := source.QueryData(context.Background(), &backend.QueryDataRequest{
		Headers: map[string]string{"Fromalert": "true"},
		Queries: []backend.DataQuery{{RefID: "A", JSON: json.RawMessage(model), Interval: time.Second, MaxDataPoints: 43200,
			TimeRange: backend.TimeRange{From: pool.Time(window.From), To: pool.Time(window.To)}}},
	})
	require.NoError(t, err)
	return response.Responses["A"]
}

// Every view that can alert answers as the alert engine demands, even without data; the error of any other view names
// the ones that can.
func TestAlertFrames(t *testing.T) {
	binary, _ := source(t, map[string]any{"snapshotDir": golden.Pool(t, "pool-a"), "jobs": "sqlite"})
	full := golden.Window(t, "2025-09-30T00:00:00Z", "2025-10-01T12:00:00Z")
	empty := golden.Window(t, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z")
	computing, _ := source(t, map[string]any{ // its GPUs report their usage, and its queues are polled
		"snapshotDir": golden.Pool(t, "pool-c"), "timezone": "America/Chicago",
	})
	alertable, withValues := 0, 0
	for _, kind := range kinds.Catalog {
		binary, full := binary, full
		if kind.Name == "utilization" || kind.Name == "demand" {
			binary, full = computing, golden.Window(t, "2025-09-29T00:00:00Z", "2025-10-01T12:00:00Z")
		}
		for _, view := range kind.Views {
			ask := func(more string) string {
				return fmt.Sprintf(`{"queryType": %q, "view": %q%s}`, kind.Name, view.Name, more)
			}
			if view.Alerting != query.AlertSeries {
				answer := askAlert(t, binary, full, ask(""))
				require.Equal(t, backend.StatusBadRequest, answer.Status, ask(""))
				require.ErrorContains(t, answer.Error, "alert", ask(""))
			}
			if view.Alerting == query.AlertNone {
				continue
			}
			metrics := view.Metrics
			if len(metrics) == 0 {
				metrics = []string{""}
			}
			for _, metric := range metrics {
				q := ask("")
				if metric != "" {
					q = ask(fmt.Sprintf(`, "metrics": [%q]`, metric))
				}
				alertable++
				answer := askAlert(t, binary, full, q)
				require.NoError(t, answer.Error, q)
				values, err := plugintest.Alertable(answer.Frames)
				require.NoError(t, err, q)
				if len(values) > 0 {
					withValues++
				}
				if kind.Name == "allocation" && view.Name == "health" {
					continue // the data's age is known in any window
				}
				answer = askAlert(t, binary, empty, q)
				require.NoError(t, answer.Error, q)
				values, err = plugintest.Alertable(answer.Frames)
				require.NoError(t, err, q)
				require.Empty(t, values, "%s: an empty window is no data", q)
			}
		}
	}
	require.Greater(t, alertable, 50)
	require.Greater(t, withValues, alertable*9/10, "most have values")

	// two series at once: their label sets differ
	answer := askAlert(t, binary, full, `{"queryType": "allocation", "metrics": ["free", "available"], "groupBy": ["device", "category"]}`)
	require.NoError(t, answer.Error)
	values, err := plugintest.Alertable(answer.Frames)
	require.NoError(t, err)
	require.NotEmpty(t, values)
}

// Grafana 12.4 and newer pass plugins none of their own environment, so the server's keys are missing: the health check
// says so, and which setting passes them.
func TestEmptiedEnvironment(t *testing.T) {
	o := buckettest.Start(t).Bucket(t)
	row := make([]any, len(parquet.Schema))
	for i, f := range parquet.Schema {
		row[i] = map[string]any{"Name": "slot1@m1", "Machine": "m1", "State": "Unclaimed", "AssignedGPUs": "GPU-1",
			"timestamp": "2026-03-02 00:00:00.000000"}[f.Name]
	}
	month, err := parquet.Encode(parquet.Schema, [][]any{row})
	require.NoError(t, err)
	_, err = buckettest.Open(t, o).Put(t.Context(), "gpu_state_2026-03.parquet", month, "")
	require.NoError(t, err)
	t.Setenv("AWS_ACCESS_KEY_ID", o.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", o.SecretKey)
	allowed := "GF_PLUGIN_ALLOWED_BUCKETS=" + o.Endpoint + "/" + o.URL[len("s3://"):]
	settings, err := json.Marshal(map[string]any{"snapshotBucket": o.URL, "bucketEndpoint": o.Endpoint,
		"bucketPathStyle": o.PathStyle})
	require.NoError(t, err)
	binary, err := Build(t.Context(), directory)
	require.NoError(t, err)
	health := func(p *Process, err error) *backend.CheckHealthResult {
		require.NoError(t, err)
		t.Cleanup(p.Close)
		result, err := p.CheckHealth(t.Context(), &backend.CheckHealthRequest{PluginContext: backend.PluginContext{
			PluginID: plugin.ID, User: &backend.User{Role: "Admin"},
			DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{UID: "bucket", Type: plugin.ID,
				JSONData: settings}}})
		require.NoError(t, err)
		return result
	}
	without := health(StartIn([]string{allowed}, binary, io.Discard))
	require.Equal(t, backend.HealthStatusError, without.Status, without.Message)
	require.Contains(t, without.Message, "forward_host_env_vars = "+plugin.ID)
	with := health(Start(binary, io.Discard, allowed))
	require.Equal(t, backend.HealthStatusOk, with.Status, with.Message)
	require.Contains(t, with.Message, "newest 2026-03-02 00:00")
	require.NotContains(t, with.Message, "forward_host_env_vars")
}
