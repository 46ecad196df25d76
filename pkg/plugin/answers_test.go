package plugin

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// everyView is a query of each view that there is.
func everyView() []string {
	var models []string
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			m := map[string]any{"queryType": kind.Name, "view": view.Name}
			var by []string
			for _, g := range []string{"device", "category"} {
				if slices.Contains(view.GroupBy, g) {
					by = append(by, g)
				}
			}
			if by != nil {
				m["groupBy"] = by
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
			// those without a sentence are of how the answer was made
			f.Meta.Stats = slices.DeleteFunc(f.Meta.Stats, func(s data.QueryStat) bool { return s.Description == "" })
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

// Windows of one instant are answered by each view, with each of its metrics by itself and each grouping: no error,
// and no number that is none, which JSON does not have and so costs all answers of a request.
func TestWindowsOfOneInstant(t *testing.T) {
	var models []string
	for _, kind := range kinds.Catalog {
		for _, view := range kind.Views {
			asked := func(more string) {
				models = append(models, fmt.Sprintf(`{"queryType": %q, "view": %q%s}`, kind.Name, view.Name, more))
			}
			asked("")
			for _, metric := range view.Metrics {
				asked(fmt.Sprintf(`, "metrics": [%q]`, metric))
			}
			lists := view.Groups // the only ones
			for i := 0; view.Groups == nil && i < len(view.GroupBy); i++ {
				lists = append(lists, view.GroupBy[i:i+1])
			}
			for _, by := range lists {
				asked(`, "groupBy": ["` + strings.Join(by, `", "`) + `"]`)
			}
		}
	}
	for _, settings := range []map[string]any{{"sliceMinutes": 0}, {"jobs": "sqlite", "jobsPath": "jobs.db"}} {
		o := small(func(o *samplepool.Options) {
			if settings["jobs"] == nil {
				o.Polls = 0 // no queue files
			}
		})
		dir, p := writePool(t, o)
		truth, err := p.Truth(t.Context())
		require.NoError(t, err)
		seen, middle := truth.Snapshots, len(truth.Snapshots)/2
		instants := []time.Time{seen[0].Add(-time.Hour), seen[0], seen[middle], seen[middle].Add(time.Microsecond),
			seen[middle].Add(seen[middle+1].Sub(seen[middle]) / 2).Truncate(time.Millisecond), seen[len(seen)-1],
			o.End.Add(time.Hour)}
		if o.Polls > 0 {
			polls := newestPoll(t, dir)
			instants = append(instants, polls, polls.Add(-o.Polls), polls.Add(-o.Polls/2))
		}
		settings["snapshotDir"] = dir
		d := open(t, o.End, settings)
		for _, at := range instants {
			var queries []backend.DataQuery
			for i, model := range models {
				q := queryOf(t, o, fmt.Sprint(i), model)
				q.TimeRange = backend.TimeRange{From: at, To: at}
				queries = append(queries, q)
			}
			r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: queries})
			require.NoError(t, err)
			_, err = json.Marshal(r)
			require.NoError(t, err)
			for i, model := range models {
				answer := r.Responses[fmt.Sprint(i)]
				require.NoError(t, answer.Error, "%s at %s", model, at)
				requireFinite(t, answer.Frames, model)
			}
		}
	}
}

func requireFinite(t *testing.T, all data.Frames, model string) {
	t.Helper()
	for _, frame := range all {
		for _, stat := range frame.Meta.Stats {
			require.False(t, math.IsNaN(stat.Value) || math.IsInf(stat.Value, 0), "%s: %s", model, stat.DisplayName)
		}
		for _, field := range frame.Fields {
			for i := range field.Len() {
				value, there := field.ConcreteAt(i)
				number, is := value.(float64)
				require.False(t, there && is && (math.IsNaN(number) || math.IsInf(number, 0)), "%s: %s", model, field.Name)
			}
		}
	}
}

// newestPoll is the newest poll of the queues.
func newestPoll(t *testing.T, dir string) (at time.Time) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
	require.NoError(t, err)
	for _, file := range files {
		db, err := sql.Open("sqlite", file)
		require.NoError(t, err)
		var seconds int64
		require.NoError(t, db.QueryRow("SELECT max(last_seen) FROM job_pressure").Scan(&seconds))
		require.NoError(t, db.Close())
		at = time.Unix(seconds, 0).UTC()
	}
	require.False(t, at.IsZero())
	return at
}

// Broken slots are not free: the lists name them with their reason, and so does the check.
func TestBrokenSlots(t *testing.T) {
	dir := t.TempDir()
	var rows []snapshotstest.Row
	end := time.Date(2025, 9, 2, 12, 0, 0, 0, time.UTC)
	for at := end.Add(-6 * time.Hour); !at.After(end); at = at.Add(15 * time.Minute) {
		for m, machine := range []string{"broken", "mended", "whole"} {
			slot := func(name, gpu, state string, more map[string]any) {
				r := snapshotstest.Row{"Name": name + "@" + machine, "Machine": machine, "AssignedGPUs": gpu,
					"State": state, "GPUs_DeviceName": "A100", "GPUs_GlobalMemoryMb": 81920, "SlotType": "Partitionable",
					"Cpus": 0, "Memory": 0, "timestamp": at.Format("2006-01-02 15:04:05.000000")}
				maps.Copy(r, more)
				rows = append(rows, r)
			}
			why := map[string]any{"SlotBrokenReason": "execute directory is gone"}
			if machine == "whole" || machine == "mended" && at.After(end.Add(-time.Hour)) {
				why = map[string]any{"Cpus": 32, "Memory": 1 << 18}
			}
			slot("slot1", fmt.Sprintf("GPU-%d0", m), "Unclaimed", why)
			slot("slot1", fmt.Sprintf("GPU-%d1", m), "Unclaimed", why)
			slot("backfill2_1", fmt.Sprintf("GPU-%d1", m), "Claimed", map[string]any{"RemoteOwner": "bob@x",
				"GlobalJobId": "ap#1.0#1756000000", "SlotType": "Dynamic"})
		}
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-09.db": rows})
	writeQueue(t, dir, end.Unix()-3*3600, end.Unix())
	d := open(t, end, map[string]any{"snapshotDir": dir})
	ask := func(model string) []map[string]any {
		r, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{{RefID: "A",
			JSON: []byte(model), Interval: time.Minute, TimeRange: backend.TimeRange{From: end.Add(-3 * time.Hour), To: end}}}})
		require.NoError(t, err)
		require.NoError(t, r.Responses["A"].Error)
		return golden.Rows(r.Responses["A"].Frames)
	}
	states := map[any][2]any{}
	for _, r := range ask(`{"queryType": "allocation", "view": "current"}`) {
		states[r["gpu"]] = [2]any{r["state"], r["preventReason"]}
	}
	require.Equal(t, [2]any{"Other", "execute directory is gone"}, states["GPU-00"])
	require.Equal(t, "Backfill", states["GPU-01"][0], "jobs do run on the backfill slots of a broken machine")
	require.Equal(t, [2]any{"Free", ""}, states["GPU-10"])
	require.Equal(t, [2]any{"Free", ""}, states["GPU-20"])
	for _, r := range ask(`{"queryType": "allocation", "view": "machines"}`) {
		want := map[any][2]any{"broken": {"execute directory is gone", "active"},
			"mended": {"execute directory is gone", "lifted"}, "whole": {"", ""}}[r["machine"]]
		require.Equal(t, want, [2]any{r["preventReasons"], r["preventState"]}, "%v", r)
	}
	why := map[any]any{}
	for _, r := range ask(`{"queryType": "demand", "view": "unusedNow"}`) {
		why[r["machine"]] = r["reason"]
	}
	require.Equal(t, map[any]any{"broken": "other", "mended": "fits", "whole": "noDemand"}, why)
	findings, err := d.Check(t.Context(), 24*time.Hour)
	require.NoError(t, err)
	at := slices.IndexFunc(findings, func(f finding) bool { return f.Store == "broken slots" })
	require.GreaterOrEqual(t, at, 0, "%v", findings)
	require.Equal(t, check.Warning, findings[at].Severity)
	require.Contains(t, findings[at].Text, "2 GPUs of 1 machine (broken: execute directory is gone)")
}

// writeQueue writes a job that waits for a GPU, polled every 30 minutes.
func writeQueue(t *testing.T, dir string, from, to int64) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "job_pressure_2025-09.db"))
	require.NoError(t, err)
	_, err = db.Exec("CREATE TABLE job_pressure(GlobalJobId TEXT, ScheddName TEXT, Owner TEXT, RequestGPUs REAL, " +
		"RequestCPUs REAL, RequestMemory REAL, RequestGPUMemory REAL, QDate INTEGER, ChtcProjects TEXT, " +
		"first_seen INTEGER, last_seen INTEGER)")
	require.NoError(t, err)
	_, err = db.Exec("INSERT INTO job_pressure VALUES ('ap#2.0#1756000000', 'ap', 'ann', 1, 1, 1024, NULL, ?, '', ?, ?)",
		from, from, to)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// The lists are read with each query: days and observations cached under other lists are not used.
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
	require.NotContains(t, golden.Told(answer.Frames), "showing", "nothing is cut")
	require.Contains(t, golden.Told(answer.Frames), "the 150 users with the most hours, the other 10 are Other")
}

// queryOf is a query as Grafana sends it, over all of a pool.
func queryOf(t *testing.T, o samplepool.Options, refID, model string) backend.DataQuery {
	t.Helper()
	require.True(t, json.Valid([]byte(model)), model)
	return backend.DataQuery{RefID: refID, JSON: json.RawMessage(model), Interval: time.Minute, MaxDataPoints: 1000,
		TimeRange: backend.TimeRange{From: o.Start, To: o.End}}
}

func TestEachQueryFailsAlone(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	bad := map[string]struct {
		model string
		words []string
	}{
		"noType":   {`{}`, []string{"queryType", "allocation", "userHours", "backfillAvailability", "evictions"}},
		"kind":     {`{"queryType": "weather"}`, []string{"weather", "allocation"}},
		"view":     {`{"queryType": "allocation", "view": "pie"}`, []string{"pie", "summary"}},
		"metric":   {`{"queryType": "allocation", "metrics": ["speed"]}`, []string{"speed", "allocatedPercent"}},
		"grouping": {`{"queryType": "allocation", "groupBy": ["colour"]}`, []string{"colour", "device"}},
		"filter":   {`{"queryType": "allocation", "filter": {"colours": []}}`, []string{"colours", "devices"}},
		"pattern":  {`{"queryType": "allocation", "filter": {"devices": ["/(/"]}}`, []string{"/(/"}},
		"bucket":   {`{"queryType": "allocation", "bucket": "7m"}`, []string{"7m", "15m"}},
		"zone":     {`{"queryType": "allocation", "timezone": "Mars"}`, []string{"Mars"}},
		"variable": {`{"queryType": "allocation", "filter": {"devices": ["$device"]}}`, []string{"$device"}},
		"type":     {`{"queryType": 7}`, []string{"cannot be read"}},
	}
	request := &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "good",
		`{"queryType": "allocation"}`), queryOf(t, o, "also", `{"queryType": "userHours"}`)}}
	for refID, b := range bad {
		request.Queries = append(request.Queries, queryOf(t, o, refID, b.model))
	}
	inverted := queryOf(t, o, "inverted", `{"queryType": "allocation"}`)
	inverted.TimeRange = backend.TimeRange{From: o.End, To: o.Start}
	request.Queries = append(request.Queries, inverted)

	response, err := d.QueryData(context.Background(), request)
	require.NoError(t, err)
	require.Len(t, response.Responses, len(bad)+3)
	for _, refID := range []string{"good", "also"} {
		require.NoError(t, response.Responses[refID].Error)
		require.Equal(t, backend.StatusOK, response.Responses[refID].Status)
		require.NotEmpty(t, response.Responses[refID].Frames)
	}
	bad["inverted"] = struct {
		model string
		words []string
	}{"", []string{"time range"}}
	for refID, b := range bad {
		answer := response.Responses[refID]
		require.Error(t, answer.Error, refID)
		require.Equal(t, backend.StatusBadRequest, answer.Status, refID)
		require.Equal(t, backend.ErrorSourceDownstream, answer.ErrorSource, refID)
		for _, word := range b.words {
			require.ErrorContains(t, answer.Error, word, refID)
		}
	}
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		err    error
		status backend.Status
		source backend.ErrorSource
	}{
		{pool.BadQuery("x"), 400, backend.ErrorSourceDownstream},
		{fmt.Errorf("loading: %w", pool.SourceError("x")), 502, backend.ErrorSourceDownstream},
		{fmt.Errorf("loading: %w", context.Canceled), 499, backend.ErrorSourceDownstream},
		{pool.SourceError("x: %w", context.DeadlineExceeded), 504, backend.ErrorSourceDownstream},
		{fmt.Errorf("x"), 500, backend.ErrorSourcePlugin},
	} {
		response := failure(c.err)
		require.Equal(t, c.status, response.Status, c.err)
		require.Equal(t, c.source, response.ErrorSource, c.err)
		require.Equal(t, c.err, response.Error)
	}
}

func TestFromAlert(t *testing.T) {
	for _, c := range []struct {
		headers map[string]string
		alert   bool
	}{
		{nil, false},
		{map[string]string{"FromAlert": "true"}, true},
		{map[string]string{"Fromalert": "true"}, true},
		{map[string]string{"fromalert": "TRUE"}, true},
		{map[string]string{"http_FromAlert": "true"}, true},
		{map[string]string{"FromAlert": "false"}, false},
		{map[string]string{"FromAlert": ""}, false},
		{map[string]string{"X-Rule-Uid": "true"}, false},
	} {
		require.Equal(t, c.alert, isFromAlert(c.headers), "%v", c.headers)
	}
}

// A cancelled query stops its work and frees its place, although its answer was not awaited.
func TestCancelStopsTheWork(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Machines, o.GPUs = 20, 160 })
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	ctx, cancel := context.WithCancel(context.Background())
	answered := make(chan backend.DataResponse, 1)
	go func() {
		response, err := d.QueryData(ctx, &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A",
			`{"queryType": "allocation"}`)}})
		if err != nil {
			t.Error(err)
		}
		answered <- response.Responses["A"]
	}()
	inUse := d.stores.users
	require.Eventually(t, func() bool { return inUse() == 1 }, testPatience, 10*time.Microsecond, "the query works")
	begin := time.Now()
	cancel()
	answer := <-answered
	require.ErrorIs(t, answer.Error, context.Canceled)
	require.EqualValues(t, statusClientClosed, answer.Status)
	require.Equal(t, backend.ErrorSourceDownstream, answer.ErrorSource)
	require.Eventually(t, func() bool { return inUse() == 0 }, testPatience, testPause, "the work has stopped")
	t.Logf("stopped %v after the cancel", time.Since(begin))
	require.Empty(t, d.answers.computations)
}

// A request under way keeps its stores open; the last one closes it.
func TestDisposeWaitsForRequests(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := Open(settingsOf(t, map[string]any{"snapshotDir": dir}), func() time.Time { return o.End })
	stores, done, err := d.use(context.Background())
	require.NoError(t, err)
	d.Dispose()
	_, _, ok, err := stores.Timeline.Range(context.Background())
	require.NoError(t, err)
	require.True(t, ok, "still open")
	done()
	_, _, _, err = stores.Timeline.Range(context.Background())
	require.Error(t, err, "closed with the last request")
	_, _, err = d.use(context.Background())
	require.ErrorIs(t, err, errDisposed)
}

// openFiles are the files below a directory that this process has open.
func openFiles(t *testing.T, dir string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("open files can be listed on Linux only")
	}
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(target, dir) {
			files = append(files, target)
		}
	}
	return files
}

// New instances read ahead what queries will ask for.
func TestNewReadsAhead(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	instance, err := New(context.Background(), settingsOf(t, map[string]any{"snapshotDir": dir}))
	require.NoError(t, err)
	d := instance.(*Datasource)
	defer d.Dispose()
	require.Eventually(t, func() bool {
		stores, done, err := d.use(t.Context())
		require.NoError(t, err)
		used, _ := stores.Timeline.Memory()
		done()
		return used > 0 && d.stores.users() == 0
	}, testPatience, testPause)
}

// A trace shows where a query's time goes.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)))
	defer otel.SetTracerProvider(before)
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite"})
	_, err := d.QueryData(context.Background(), &backend.QueryDataRequest{Queries: []backend.DataQuery{queryOf(t, o, "A",
		`{"queryType": "evictions"}`)}})
	require.NoError(t, err)
	parents, names := map[string]string{}, map[string]string{}
	for _, span := range recorder.Ended() {
		names[span.SpanContext().SpanID().String()] = span.Name()
	}
	for _, span := range recorder.Ended() {
		parents[span.Name()] = names[span.Parent().SpanID().String()]
	}
	require.Equal(t, map[string]string{"gpureports query": "", "gpureports compute": "gpureports query",
		"gpureports load": "gpureports compute", "gpureports link": "gpureports compute"}, parents)
	query := recorder.Ended()[slices.IndexFunc(recorder.Ended(),
		func(s trace.ReadOnlySpan) bool { return s.Name() == "gpureports query" })]
	require.Equal(t, "evictions", query.Attributes()[0].Value.AsString())
}
