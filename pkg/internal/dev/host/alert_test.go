package host

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/plugintest"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

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
