package plugin

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
)

// everyView is a query of each view that there is.
func everyView() []string {
	var models []string
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			m := map[string]any{"queryType": kind.Name, "view": view.Name}
			if slices.Contains(view.GroupBy, "device") {
				m["groupBy"] = []string{"device", "category"}
			}
			text, err := json.Marshal(m)
			if err != nil {
				panic(err)
			}
			models = append(models, string(text))
		}
	}
	return models
}

// answered are the frames of each query, as text, without how they were made.
func answered(t *testing.T, d *Datasource, queries ...backend.DataQuery) (texts []string) {
	t.Helper()
	r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: queries})
	require.NoError(t, err)
	for _, q := range queries {
		require.NoError(t, r.Responses[q.RefID].Error, string(q.JSON))
		for _, f := range r.Responses[q.RefID].Frames {
			f.Meta.Stats = nil
		}
		text, err := json.Marshal(r.Responses[q.RefID].Frames)
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	return texts
}

func TestTheSameQuestionHasTheSameAnswer(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	var queries []backend.DataQuery
	for i, model := range everyView() {
		queries = append(queries, queryOf(t, o, fmt.Sprint(i), model))
	}
	var want []string
	for i := range 8 {
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": "jobs.db"})
		got := answered(t, d, queries...)
		if i == 0 {
			want = got
		}
		for k := range got {
			require.Equal(t, want[k], got[k], string(queries[k].JSON))
		}
		d.Dispose()
	}
}

// The lists are read with each query: what was kept of days and observations under other lists is not used.
func TestListsAreEditedMeanwhile(t *testing.T) {
	o := small()
	dir, p := writePool(t, o)
	var queries []backend.DataQuery
	for i, model := range everyView() {
		queries = append(queries, queryOf(t, o, fmt.Sprint(i), model))
	}
	settings := map[string]any{"snapshotDir": dir}
	d := open(t, o.End, settings)
	answered(t, d, queries...)
	machines := p.Machines()
	for name, content := range map[string][2]string{
		"chtc_owned":        {machines[0].Name + "\n", machines[1].Name + "\n" + machines[2].Name + "\n"},
		"masked_hosts.yaml": {"excluded_hosts:\n  " + machines[3].Name + ": broken\n", "excluded_hosts: {}\n"},
	} {
		for _, text := range content {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			want := answered(t, open(t, o.End, settings), queries...)
			got := answered(t, d, queries...)
			for k := range got {
				require.Equal(t, want[k], got[k], "%s: %s", name, queries[k].JSON)
			}
		}
	}
}

// A GPU of no machine has no cells: zeros would say that it was looked for and idle.
func TestUnknownDeviceHasNoCells(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	for _, model := range []string{
		`{"queryType": "backfillAvailability", "view": "hourOfWeek", "metrics": ["available"], "filter": {"devices": ["none such"]}}`,
		`{"queryType": "evictions", "view": "hourOfWeek", "metrics": ["evictions"], "filter": {"devices": ["none such"]}}`,
	} {
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A", model)}})
		require.NoError(t, err)
		require.NoError(t, r.Responses["A"].Error)
		require.Len(t, r.Responses["A"].Frames, 1)
		require.Empty(t, r.Responses["A"].Frames[0].Fields)
		require.NotEqual(t, data.FrameType("heatmap-cells"), r.Responses["A"].Frames[0].Meta.Type,
			"Grafana cannot draw cells without fields")
	}
}

// Series of one panel's queries can be told apart in its legend, and those of a query alone keep their names.
func TestQueriesOfARequestHaveDifferentNames(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	model := func(metric string) string {
		return `{"queryType": "allocation", "groupBy": ["category"], "metrics": ["` + metric + `"], "legend": "{{category}}"}`
	}
	named := func(metrics ...string) (names []string) {
		var queries []backend.DataQuery
		for i, metric := range metrics {
			queries = append(queries, queryOf(t, o, string(rune('A'+i)), model(metric)))
		}
		request := &backend.QueryDataRequest{Queries: queries}
		request.SetHTTPHeader("X-Datasource-Uid", "gpu")
		r, err := d.QueryData(t.Context(), request)
		require.NoError(t, err)
		for _, q := range queries {
			for _, f := range r.Responses[q.RefID].Frames {
				if value := f.Fields[1]; value.Labels["category"] == pool.Shared.String() {
					names = append(names, value.Config.DisplayNameFromDS)
				}
			}
		}
		return names
	}
	shared := pool.Shared.String()
	require.Equal(t, []string{shared}, named("available"))
	require.Equal(t, []string{shared + " · Available (avg.)", shared + " · Allocated (avg.)"},
		named("available", "allocated"))
	require.Equal(t, []string{shared + " · A", shared + " · B"}, named("available", "available"))
}

// The limit of user hours is that of users, also beyond the limit of series.
func TestLimitOfUsers(t *testing.T) {
	dir := t.TempDir()
	var rows []snapshotstest.Row
	at := time.Date(2025, 9, 2, 0, 0, 0, 0, time.UTC)
	for i := range 8 {
		for u := range 160 {
			if u > 150 && i > 0 {
				continue // these have less than the others
			}
			rows = append(rows, snapshotstest.Row{"Name": "slot1_1@m", "Machine": "m",
				"AssignedGPUs": fmt.Sprintf("GPU-%03d", u), "State": "Claimed",
				"RemoteOwner": fmt.Sprintf("u%03d", 160-u), "GlobalJobId": fmt.Sprintf("ap#%d.0#1756000000", u),
				"timestamp": at.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")})
		}
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-09.db": rows})
	d := open(t, at.Add(2*time.Hour), map[string]any{"snapshotDir": dir})
	model := `{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "window", "limit": 150}`
	r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{{RefID: "A",
		JSON:      []byte(model),
		TimeRange: backend.TimeRange{From: at, To: at.Add(2 * time.Hour)}, Interval: time.Minute}}})
	require.NoError(t, err)
	answer := r.Responses["A"]
	require.NoError(t, answer.Error)
	require.Len(t, answer.Frames, 151)
	sum, other := 0.0, 0.0
	for _, f := range answer.Frames {
		hours, err := f.Fields[1].FloatAt(0)
		require.NoError(t, err)
		sum += hours
		if f.Fields[1].Labels["user"] == query.Other {
			other += hours
		}
	}
	require.InDelta(t, 151*2+9*0.25, sum, 1e-9)
	require.InDelta(t, 2+9*0.25, other, 1e-9)
	for _, n := range answer.Frames[0].Meta.Notices {
		require.NotContains(t, n.Text, "showing", "nothing is cut")
		if strings.Contains(n.Text, "limit") {
			require.Contains(t, n.Text, "the 150 users with the most hours, the other 10 are Other")
		}
	}
}

func TestFarTimes(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	for _, ms := range []string{"9223372036854775807", "-9223372036854775808", "253402300800000", "soon"} {
		status, _, body := get(t, d, "values/device", map[string][]string{"from": {"0"}, "to": {ms}})
		require.Equal(t, 400, status, string(body))
		require.Contains(t, string(body), "is no time")
	}
}
