package host

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/plugintest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
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

// A panel, a zoomed panel and an alert rule agree (methodology section 5).
func TestPanelZoomAndAlertAgree(t *testing.T) {
	o := samplepool.Default()
	// every hour has four slices
	o.MissedSnapshots, o.LateSnapshots, o.DoubledSnapshots, o.Outages, o.Timezone = 0, 0, 0, 0, "UTC"
	o.Start, o.End = time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 1, 0, 0, 0, 0, time.UTC)
	pool_, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, pool_.Write(context.Background(), dir))
	binary, _ := source(t, map[string]any{"snapshotDir": dir})

	hour := func(h int) pool.Micros { return o.Start.UnixMicro() + pool.Micros(h)*pool.Hour }
	wide, zoomed := pool.Window{From: hour(2), To: hour(26) - 1}, pool.Window{From: hour(8), To: hour(14) - 1}
	for _, grouping := range []string{"category", "device", "ownership"} {
		model := func(more string) string {
			return fmt.Sprintf(`{"queryType": "allocation", "groupBy": [%q], "metrics": ["allocated"]%s}`, grouping, more)
		}
		inWide, inZoomed := points(t, binary, wide, model(`, "bucket": "1h"`)),
			points(t, binary, zoomed, model(`, "bucket": "1h"`))
		require.NotEmpty(t, inZoomed)
		for labels, series := range inZoomed {
			require.Len(t, series, 6, labels)
			for at, value := range series {
				require.Equal(t, inWide[labels][at], value, "%s at %s: zooming changes no figure", labels, pool.Time(at))
			}
		}
		for _, window := range []pool.Window{wide, zoomed} {
			hourly, quarters := points(t, binary, window, model(`, "bucket": "1h"`)),
				points(t, binary, window, model(`, "bucket": "15m"`))
			alerted := askAlert(t, binary, window, model(""))
			require.NoError(t, alerted.Error)
			values, err := plugintest.Alertable(alerted.Frames)
			require.NoError(t, err)
			whole := points(t, binary, window, model(`, "bucket": "window"`))
			table := ask(t, binary, window, fmt.Sprintf(`{"queryType": "allocation", "view": "summary", "groupBy": [%q], "metrics": ["allocated"]}`, grouping))[0]
			require.NoError(t, table.Error)
			rows, err := plugintest.Alertable(table.Frames)
			require.NoError(t, err, "a table with one metric alerts")
			require.Len(t, values, len(hourly))
			require.Len(t, rows, len(hourly))
			for labels, value := range values {
				require.Len(t, value.Points, 1, "auto is one bucket for an alert rule")
				alert := value.Points[0]
				require.InDelta(t, mean(hourly[labels]), alert, 1e-9, "%s: hours of equally many slices", labels)
				require.InDelta(t, mean(quarters[labels]), alert, 1e-9, labels)
				require.Equal(t, mean(whole[labels]), alert, "%s: the panel's window is the alert's", labels)
				require.Equal(t, rows[labels].Points[0], alert, "%s: the table is the alert's", labels)
			}
		}
	}
}

// points are the series of a panel by label set and time.
func points(t *testing.T, source backend.QueryDataHandler, window pool.Window,
	model string) map[string]map[pool.Micros]float64 {
	t.Helper()
	answer := ask(t, source, window, model)[0]
	require.NoError(t, answer.Error, model)
	found := map[string]map[pool.Micros]float64{}
	for _, frame := range answer.Frames {
		require.Equal(t, data.FrameTypeTimeSeriesMulti, frame.Meta.Type)
		series := map[pool.Micros]float64{}
		for row := range frame.Fields[0].Len() {
			value, err := frame.Fields[1].FloatAt(row)
			require.NoError(t, err)
			series[frame.Fields[0].At(row).(time.Time).UnixMicro()] = value
		}
		found[frame.Fields[1].Labels.String()] = series
	}
	return found
}

func mean(series map[pool.Micros]float64) float64 {
	sum := 0.0
	for _, value := range series {
		sum += value
	}
	return sum / float64(len(series))
}
