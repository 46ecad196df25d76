package fleet_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/backend/log"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/plugin"
	"github.com/chtc/gpureports/pkg/pool"
)

func TestMain(m *testing.M) {
	log.DefaultLogger = log.NewNullLogger()
	backend.Logger = log.DefaultLogger
	code := m.Run()
	jobstest.StopServers()
	http.DefaultClient.CloseIdleConnections()
	os.Exit(code)
}

// member is a pool of the tests' fleet.
type member struct {
	name   string
	source *plugin.Datasource
	dir    string
	zone   string
	begin  time.Time // the first day of windows; zero: that of made
}

func settings(t testing.TB, url string, jsonData map[string]any) backend.DataSourceInstanceSettings {
	t.Helper()
	text, err := json.Marshal(jsonData)
	require.NoError(t, err)
	return backend.DataSourceInstanceSettings{ID: 1, UID: "gpureports", Name: "GPU Reports", Type: plugin.ID, URL: url,
		JSONData: text}
}

// made are the options of the tests' pools: three zones, one of them off by half an hour, over a change of the clock;
// other cadences and slices.
func made() []samplepool.Options {
	var all []samplepool.Options
	for i, zone := range []string{"America/Chicago", "UTC", "Asia/Kolkata"} {
		o := samplepool.Default()
		o.Seed, o.Machines, o.GPUs, o.Timezone = uint64(i+1), 6+i, 20+7*i, zone
		o.Start, o.End = time.Date(2025, 10, 31, 0, 0, 0, 0, time.UTC), time.Date(2025, 11, 3, 7, 20, 0, 0, time.UTC)
		o.Cadence = []time.Duration{15 * time.Minute, 10 * time.Minute, 5 * time.Minute}[i]
		all = append(all, o)
	}
	return all
}

var (
	sliceMinutes = []int{15, 0, 30}
	jobSources   = []string{"sqlite", "none", "sqlite"}
)

// members makes the pools, with the same Elasticsearch and alias for all.
func members(t *testing.T, url, alias string) (all []member, now time.Time) {
	t.Helper()
	for i, o := range made() {
		m := member{name: "pool " + string(rune('a'+i)), dir: poolOf(t, o), zone: o.Timezone}
		now = o.End
		if i == 1 { // its queues are not polled
			queues, err := filepath.Glob(filepath.Join(m.dir, "job_pressure_*.db"))
			require.NoError(t, err)
			require.NotEmpty(t, queues)
			for _, file := range queues {
				require.NoError(t, os.Remove(file))
			}
		}
		m.source = plugin.Open(settings(t, url, map[string]any{"snapshotDir": m.dir, "timezone": o.Timezone,
			"sliceMinutes": sliceMinutes[i], "factsIndex": alias, "jobs": jobSources[i]}), func() time.Time { return o.End })
		t.Cleanup(m.source.Dispose)
		all = append(all, m)
	}
	return all, now
}

func publishAll(t *testing.T, all []member, since time.Time) (documents, removed int) {
	t.Helper()
	for _, m := range all {
		o := publish.Options{Pool: m.name, Since: since}
		require.NoError(t, plugin.Publish(t.Context(), m.source, o, func(p publish.Part) {
			documents, removed = documents+p.Documents, removed+p.Removed
			require.Empty(t, p.Warnings)
		}))
	}
	return documents, removed
}

// openFleet opens a data source of all pools that have published under an alias.
func openFleet(t *testing.T, url, alias string, now time.Time) *plugin.Datasource {
	t.Helper()
	d := plugin.Open(settings(t, url, map[string]any{"mode": "fleet", "factsIndex": alias}),
		func() time.Time { return now })
	t.Cleanup(d.Dispose)
	return d
}

// ask asks one query.
func ask(t *testing.T, d *plugin.Datasource, q map[string]any, w pool.Window) backend.DataResponse {
	t.Helper()
	text, err := json.Marshal(q)
	require.NoError(t, err)
	answer, err := d.QueryData(t.Context(), &backend.QueryDataRequest{Queries: []backend.DataQuery{{RefID: "A",
		Interval: time.Minute, MaxDataPoints: 1000, JSON: text,
		TimeRange: backend.TimeRange{From: pool.Time(w.From), To: pool.Time(w.To)}}}})
	require.NoError(t, err)
	return answer.Responses["A"]
}

func with(q map[string]any, more map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, q)
	maps.Copy(all, more)
	return all
}

func parse(t *testing.T, text string) (q map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &q))
	return q
}

// questions that both a pool and a fleet can answer.
var questions = []string{
	`{"queryType": "allocation", "view": "summary"}`,
	`{"queryType": "allocation", "view": "summary", "groupBy": []}`,
	`{"queryType": "allocation", "view": "summary", "groupBy": ["device", "memory", "tier"], "metrics": ["allocated"]}`,
	`{"queryType": "allocation", "view": "summary", "groupBy": ["ownership", "project", "slots"]}`,
	`{"queryType": "allocation", "view": "summary", "filter": {"devices": ["/A100|H100/"], "slots": ["Real"]}}`,
	`{"queryType": "allocation", "view": "summary", "filter": {"ownerships": ["!Open Capacity"]}, "groupBy": ["device"]}`,
	`{"queryType": "allocation", "view": "summary", "filter": {"projects": ["/./"]}, "includeOldDevices": false}`,
	`{"queryType": "allocation", "view": "summary", "filter": {"users": ["/a/"]}, "metrics": ["allocated"]}`,
	`{"queryType": "allocation", "bucket": "1h", "metrics": ["allocatedPercent", "free", "drained", "prevented"]}`,
	`{"queryType": "allocation", "bucket": "3h", "groupBy": ["device"], "metrics": ["available", "unclaimed"]}`,
	`{"queryType": "allocation", "bucket": "1d", "groupBy": []}`,
	`{"queryType": "allocation", "bucket": "1w", "groupBy": ["memory"]}`,
	`{"queryType": "allocation", "bucket": "1M"}`,
	`{"queryType": "allocation", "bucket": "6h", "completeBucketsOnly": true}`,
	`{"queryType": "userHours"}`,
	`{"queryType": "userHours", "groupBy": ["device", "project"], "limit": 7}`,
	`{"queryType": "userHours", "groupBy": [], "metrics": ["gpuHours"]}`,
	`{"queryType": "userHours", "filter": {"users": ["!/a/"]}}`,
	`{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "1d"}`,
	`{"queryType": "userHours", "view": "timeseries", "groupBy": ["category"], "bucket": "1h"}`,
	`{"queryType": "userHours", "groupBy": ["jobProject"], "metrics": ["gpuHours", "percentOfTotal"], "totals": true}`,
	`{"queryType": "userHours", "view": "timeseries", "groupBy": ["jobProject", "device"], "bucket": "6h"}`,
	`{"queryType": "userHours", "groupBy": [], "filter": {"jobProjects": ["!Unknown", "!DSI"]}, "metrics": ["gpuHours"]}`,
	`{"queryType": "userHours", "groupBy": ["user"], "filter": {"jobProjects": ["/^$/", "Unknown"]}, "view": "timeseries",
		"bucket": "1d"}`,
	`{"queryType": "utilization", "view": "summary", "groupBy": ["category", "device"], "metrics": ` + ofUsage + `}`,
	`{"queryType": "utilization", "view": "summary", "groupBy": [], "metrics": ` + ofUsage + `}`,
	`{"queryType": "utilization", "view": "summary", "groupBy": ["user", "project"], "metrics": ` + ofUsage + `}`,
	`{"queryType": "utilization", "view": "summary", "groupBy": ["memory", "ownership"], "metrics": ["idleGpuHours"]}`,
	`{"queryType": "utilization", "view": "summary", "filter": {"users": ["/a/"], "slots": ["Backfill"],
		"devices": ["!/A100/"]}, "metrics": ` + ofUsage + `}`,
	`{"queryType": "utilization", "bucket": "1h", "metrics": ["utilizationPercent", "busy", "idle"]}`,
	`{"queryType": "utilization", "bucket": "1d", "groupBy": ["category"], "metrics": ["utilizationPercent", "busy"]}`,
	`{"queryType": "utilization", "bucket": "1M", "groupBy": ["user"], "metrics": ["idle"]}`,
	`{"queryType": "evictions", "groupBy": ["category", "device"], "metrics": ` + ofEvictions + `}`,
	`{"queryType": "evictions", "groupBy": [], "metrics": ` + ofEvictions + `}`,
	`{"queryType": "evictions", "groupBy": ["user", "machineType"], "metrics": ` + ofEvictions + `}`,
	`{"queryType": "evictions", "groupBy": ["cause", "evidence"], "metrics": ` + ofEvictions + `}`,
	`{"queryType": "evictions", "groupBy": ["ownership", "cause"], "metrics": ["ratePer100GpuHours"]}`,
	`{"queryType": "evictions", "filter": {"users": ["!/a/"], "categories": ["!Backfill (Open Capacity)"]},
		"metrics": ` + ofEvictions + `}`,
	`{"queryType": "evictions", "view": "timeseries", "bucket": "1h", "groupBy": ["device"], "metrics": ["evictions",
		"ratePer100GpuHours", "lostGpuHours", "runs"]}`,
	`{"queryType": "evictions", "view": "timeseries", "bucket": "6h", "groupBy": ["cause"], "metrics": ["evictions",
		"ratePer100GpuHours", "lostGpuHours", "evictedGpuHours"]}`,
	`{"queryType": "demand", "view": "summary", "metrics": ` + ofDemand + `}`,
	`{"queryType": "demand", "view": "summary", "groupBy": ["user", "gpus"], "metrics": ` + ofDemand + `}`,
	`{"queryType": "demand", "view": "summary", "groupBy": ["schedd", "project"], "metrics": ` + ofDemand + `,
		"filter": {"gpuMemory": ["any"]}}`,
	`{"queryType": "demand", "bucket": "1h", "groupBy": ["gpuMemory"], "metrics": ["waitingGpus", "waitingJobs"]}`,
	`{"queryType": "demand", "bucket": "1d", "groupBy": ["user"], "metrics": ["started", "waitingGpus"]}`,
	`{"queryType": "backfillAvailability", "view": "timeseries", "bucket": "1h", "groupBy": ["category"], "metrics":
		["available", "used", "taken", "usedPercent"]}`,
	`{"queryType": "backfillAvailability", "view": "timeseries", "bucket": "12h", "groupBy": ["machineType", "device"],
		"metrics": ["available", "taken", "usedPercent"], "filter": {"projects": ["!/^$/"]}}`,
	`{"queryType": "backfillAvailability", "view": "timeseries", "bucket": "1w", "filter": {"devices": ["/A100/"]}}`,
	`{"queryType": "evictions", "view": "timeseries", "bucket": "1d", "groupBy": ["ownership"], "metrics": ["runs",
		"lostGpuHours", "yielded", "evictedGpuHours"]}`,
}

const ofEvictions = `["runs", "evictions", "yielded", "completed", "removed", "held", "running", "lost", "ambiguous", "unseen",
	"gpuHours", "ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "lostGpuHours", "lostPercent",
	"evictedGpuHours", "checkpointedPercent"]`

const ofDemand = `["waits", "started", "left", "meanWaitHours", "waitingJobs", "waitingGpus"]`

const ofUsage = `["heldGpuHours", "measuredPercent", "utilizationPercent", "busyGpuHours", "idleGpuHours",
	"idlePercent", "runs"]`

// windows of full hours of a zone: the pool's whole time, days, an hour.
func windows(t *testing.T, m member) (all []pool.Window) {
	t.Helper()
	place, err := localtime.Location(m.zone)
	require.NoError(t, err)
	if m.begin.IsZero() {
		m.begin = time.Date(2025, 10, 31, 0, 0, 0, 0, time.UTC)
	}
	year, month, first := m.begin.Date()
	at := func(day, hour int) pool.Micros {
		return time.Date(year, month, first+day, hour, 0, 0, 0, place).UnixMicro()
	}
	for _, w := range []pool.Window{{From: at(0, 6), To: at(3, 0)}, {From: at(0, 20), To: at(2, 13)},
		{From: at(1, 9), To: at(1, 10)}, {From: at(1, 23), To: at(2, 4)}} {
		all = append(all, pool.Window{From: w.From, To: w.To - 1}) // a snapshot at its end is of the next hour
	}
	return all
}

// same compares answers row by row.
func same(t *testing.T, want, got data.Frames, what string) {
	t.Helper()
	w, g := labelled(want), labelled(got)
	require.Len(t, g, len(w), what)
	for i := range w {
		require.Equal(t, slices.Sorted(maps.Keys(w[i])), slices.Sorted(maps.Keys(g[i])), what)
		for name := range w[i] {
			if at, ok := w[i][name].(time.Time); ok {
				require.True(t, at.Equal(g[i][name].(time.Time)), "%s: row %d: %s, not %s", what, i, at, g[i][name])
				continue
			}
			require.True(t, golden.Same(w[i][name], g[i][name]), "%s: row %d: %s: want %v, got %v\n%v\n%v", what, i, name,
				w[i][name], g[i][name], w[i], g[i])
		}
	}
}

// labelled are the rows of frames, with the labels of their series.
func labelled(frames data.Frames) (rows []map[string]any) {
	for _, f := range frames {
		labels := map[string]any{}
		for _, field := range f.Fields {
			for name, value := range field.Labels {
				labels[name] = value
			}
		}
		for _, row := range golden.Rows(data.Frames{f}) {
			rows = append(rows, with(row, labels))
		}
	}
	return rows
}

// For windows of full hours the fleet's answer of one pool is that of the pool's own data source; by pool it is the
// union of theirs.
func TestFleetEqualsPools(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-equal-%d", time.Now().UnixNano()) // the server may be one that others use
	all, now := members(t, url, alias)
	documents, removed := publishAll(t, all, time.Time{})
	require.Positive(t, documents)
	require.Zero(t, removed)
	rows := 0
	for _, m := range all {
		rows += testPool(t, url, alias, m, now)
	}
	require.Greater(t, rows, 5000, "the questions have answers")
	testUnion(t, url, alias, all, now)
	testRefused(t, url, alias, now)
	testPools(t, url, alias, all, now)
	testResources(t, url, alias, all, now)
}

// testPool compares the fleet's answers of a pool with those of its own data source, and returns their number of rows.
func testPool(t *testing.T, url, alias string, m member, now time.Time) (rows int) {
	t.Helper()
	fleet := plugin.Open(settings(t, url, map[string]any{"mode": "fleet", "factsIndex": alias, "timezone": m.zone}),
		func() time.Time { return now })
	t.Cleanup(fleet.Dispose)
	for _, text := range questions {
		for i, w := range windows(t, m) {
			q := parse(t, text)
			if !slices.Contains([]any{"allocation", "userHours"}, q["queryType"]) {
				w.To++ // a window is closed: of the time of runs nothing may be missing
			}
			want := ask(t, m.source, q, w)
			require.NoError(t, want.Error, text)
			filter, _ := q["filter"].(map[string]any)
			got := ask(t, fleet, with(q, map[string]any{"filter": with(filter, map[string]any{"pools": []string{m.name}})}), w)
			require.NoError(t, got.Error, text)
			same(t, want.Frames, got.Frames, fmt.Sprintf("%s of %s, window %d", text, m.name, i))
			rows += len(labelled(want.Frames))
		}
	}
	return rows
}

// testRefused: queries that facts cannot answer are refused with advice, and invalid ones with the valid values.
func testRefused(t *testing.T, url, alias string, now time.Time) {
	t.Helper()
	fleet := openFleet(t, url, alias, now)
	const advice = "ask the data source of the pool itself"
	w := windows(t, member{zone: "UTC"})[0]
	for text, want := range map[string]string{
		`{"queryType": "allocation", "view": "current"}`:                                          advice,
		`{"queryType": "allocation", "groupBy": ["machine"]}`:                                     advice,
		`{"queryType": "backfillAvailability", "view": "summary"}`:                                advice,
		`{"queryType": "backfillAvailability", "view": "timeseries", "metrics": ["ended"]}`:       advice,
		`{"queryType": "evictions", "metrics": ["medianHoursToEviction"]}`:                        advice,
		`{"queryType": "utilization", "view": "summary", "metrics": ["idleRuns"]}`:                advice,
		`{"queryType": "demand", "view": "summary", "metrics": ["medianWaitHours"]}`:              advice,
		`{"queryType": "utilization", "view": "summary", "groupBy": ["jobProject"]}`:              advice,
		`{"queryType": "evictions", "filter": {"jobProjects": ["DSI"]}}`:                          advice,
		`{"queryType": "userHours", "groupBy": ["jobProject"], "metrics": ["attributedPercent"]}`: advice,
		`{"queryType": "demand", "view": "summary", "groupBy": ["ownGpus"]}`:                      advice,
		`{"queryType": "utilization", "view": "summary", "groupBy": ["usedMemory"]}`:              advice,
		`{"queryType": "utilization", "view": "failures"}`:                                        advice,
		`{"queryType": "allocation", "bucket": "15m"}`:                                            "valid values: auto, window, 1h",
		`{"queryType": "allocation", "groupBy": ["colour"]}`:                                      "valid values: pool, category",
		`{"queryType": "allocation", "filter": {"machines": ["gpu1"]}}`:                           advice,
		`{"queryType": "allocation", "filter": {"pools": ["/(/"]}, "bucket": ""}`:                 "cannot be used",
	} {
		answer := ask(t, fleet, parse(t, text), w)
		require.ErrorContains(t, answer.Error, want, text)
		require.Equal(t, backend.StatusBadRequest, answer.Status, text)
	}
	unpolled := ask(t, fleet, parse(t, `{"queryType": "demand", "view": "summary"}`), w)
	require.NoError(t, unpolled.Error)
	require.Contains(t, fmt.Sprint(unpolled.Frames[0].Meta.Notices), "the queues of 1 of 3 pools were not polled")
	none := ask(t, fleet, parse(t, `{"queryType": "demand", "filter": {"pools": ["pool b"]}}`), w)
	require.NoError(t, none.Error)
	require.Empty(t, none.Frames[0].Fields, "zero would say that nobody waits")
	nowhere := ask(t, fleet, parse(t, `{"queryType": "allocation", "filter": {"pools": ["nowhere"]}}`), w)
	require.NoError(t, nowhere.Error)
	require.Empty(t, nowhere.Frames[0].Fields)
	require.Contains(t, nowhere.Frames[0].Meta.Notices[0].Text, "no pool that has published facts matches")
	late := ask(t, fleet, parse(t, `{"queryType": "allocation", "view": "summary"}`),
		pool.Window{From: now.UnixMicro() - pool.Day, To: now.UnixMicro() + 4*pool.Hour})
	require.NoError(t, late.Error)
	require.Contains(t, golden.Told(late.Frames), "of the time range are missing")
}

// testPools: the pools with how far their facts reach; one number of each of them can alert.
func testPools(t *testing.T, url, alias string, all []member, now time.Time) {
	t.Helper()
	later := now.Add(5 * time.Hour)
	fleet := openFleet(t, url, alias, later)
	whole := windows(t, member{zone: "UTC"})[1]
	list := ask(t, fleet, parse(t, `{"queryType": "allocation", "view": "pools"}`), whole)
	require.NoError(t, list.Error)
	rows := labelled(list.Frames)
	require.Len(t, rows, len(all))
	for i, row := range rows {
		require.Equal(t, all[i].name, row["pool"])
		require.Equal(t, all[i].zone, row["zone"])
		place, err := time.LoadLocation(all[i].zone)
		require.NoError(t, err)
		through := row["through"].(time.Time)
		require.Zero(t, through.In(place).Minute(), "the end of a full hour of the pool's zone")
		require.InDelta(t, later.Sub(through).Hours(), row["ageHours"], 1e-9)
		require.Less(t, row["ageHours"], 6.5)
		require.False(t, row["completeThrough"].(time.Time).After(through))
		require.True(t, row["since"].(time.Time).Before(through))
		require.Greater(t, row["coveragePercent"], 50.0)
		require.LessOrEqual(t, row["coveragePercent"], 100.0)
	}
	before := pool.Window{From: whole.From - 30*pool.Day, To: whole.To - 30*pool.Day}
	text := `{"queryType": "allocation", "view": "pools", "metrics": ["%s"], "filter": {"pools": ["!pool a"]}}`
	for metric, want := range map[string]any{"ageHours": rows[1]["ageHours"], "coveragePercent": 0.0} {
		one := ask(t, fleet, parse(t, fmt.Sprintf(text, metric)), before)
		require.NoError(t, one.Error)
		require.Equal(t, data.FrameTypeNumericLong, one.Frames[0].Meta.Type)
		numbers := labelled(one.Frames)
		require.Len(t, numbers, len(all)-1, "also pools without facts in the window")
		require.Equal(t, map[string]any{"pool": "pool b", metric: want}, numbers[0])
	}
}

// testResources: values and range are those of the facts, and the health check says how far each pool's reach.
func testResources(t *testing.T, url, alias string, all []member, now time.Time) {
	t.Helper()
	fleet := openFleet(t, url, alias, now)
	get := func(d *plugin.Datasource, path string) (answer any) {
		var body []byte
		request := &backend.CallResourceRequest{Method: http.MethodGet, Path: path, URL: path}
		require.NoError(t, d.CallResource(t.Context(), request,
			backend.CallResourceResponseSenderFunc(func(r *backend.CallResourceResponse) error {
				body = append(body, r.Body...)
				return nil
			})))
		require.NoError(t, json.Unmarshal(body, &answer), "%s: %s", path, body)
		return answer
	}
	pools := get(fleet, "values/pool").([]any)
	require.Len(t, pools, len(all))
	require.Equal(t, map[string]any{"text": "pool a", "value": "pool a"}, pools[0])
	devices := map[string]bool{}
	for _, m := range all {
		for _, d := range get(m.source, "values/device").([]any) {
			devices[d.(map[string]any)["value"].(string)] = true
		}
	}
	require.Len(t, get(fleet, "values/device"), len(devices))
	require.Equal(t, get(all[0].source, "values/schedd"), get(fleet, "values/schedd"), "of one site")
	projects := get(fleet, "values/jobProject").([]any)
	require.Contains(t, projects, map[string]any{"text": "Unknown", "value": "Unknown"})
	require.Contains(t, projects, map[string]any{"text": "DSI", "value": "DSI"})
	require.Contains(t, get(fleet, "values/machine").(map[string]any)["message"], "valid values: pool, category")
	require.NotNil(t, get(fleet, "range").(map[string]any)["newest"])
	health, err := fleet.CheckHealth(t.Context(), &backend.CheckHealthRequest{
		PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
	require.NoError(t, err)
	require.Equal(t, backend.HealthStatusOk, health.Status)
	require.Contains(t, health.Message, "Facts of pool pool c: from 2025-10-30 to 2025-11-03")
}

// added are metrics that add up over pools.
var added = []string{"allocated", "free", "gpuHours", "heldGpuHours", "busyGpuHours", "runs", "running", "evictions",
	"lostGpuHours", "waits", "started", "left", "waitingGpus"}

// testUnion: by pool, an answer is the union of those of the pools; without, averages and hours add up.
func testUnion(t *testing.T, url, alias string, all []member, now time.Time) {
	t.Helper()
	fleet := openFleet(t, url, alias, now)
	w := windows(t, member{zone: "UTC"})[1]
	w.From += 30 * pool.Minute // so that it has the full hours of every zone, and the notice of what is left out
	for _, text := range []string{
		`{"queryType": "allocation", "view": "summary", "groupBy": ["device", "slots"], "totals": false, "metrics": []}`,
		`{"queryType": "userHours", "groupBy": ["category"], "totals": false, "metrics": ["gpuHours"]}`,
		`{"queryType": "utilization", "view": "summary", "groupBy": ["device"], "totals": false,
			"metrics": ["heldGpuHours", "busyGpuHours", "runs"]}`,
		`{"queryType": "evictions", "groupBy": ["device"], "totals": false,
			"metrics": ["runs", "running", "evictions", "gpuHours", "lostGpuHours"]}`,
		`{"queryType": "demand", "view": "summary", "groupBy": ["gpus"], "totals": false,
			"metrics": ["waits", "started", "left", "waitingGpus"]}`,
	} {
		q, w := parse(t, text), w
		if !slices.Contains([]any{"allocation", "userHours"}, q["queryType"]) {
			w.To++
		}
		var want []map[string]any
		sums := map[string]float64{}
		groups := q["groupBy"].([]any)
		for _, m := range all {
			own := pool.Window{From: w.From, To: w.To}
			if m.zone == "Asia/Kolkata" {
				own.To -= 30 * pool.Minute
			} else {
				own.From += 30 * pool.Minute
			}
			answer := ask(t, m.source, q, own)
			require.NoError(t, answer.Error)
			for _, row := range labelled(answer.Frames) {
				want = append(want, with(row, map[string]any{"pool": m.name}))
				key := ""
				for _, g := range groups {
					key += fmt.Sprint(row[g.(string)], "|")
				}
				for _, metric := range added {
					if v, ok := row[metric].(float64); ok {
						sums[key+metric] += v
					}
				}
			}
		}
		got := ask(t, fleet, with(q, map[string]any{"groupBy": append([]any{"pool"}, groups...)}), w)
		require.NoError(t, got.Error)
		rows := labelled(got.Frames)
		require.Len(t, rows, len(want))
		for i := range want {
			for name := range want[i] {
				require.True(t, golden.Same(want[i][name], rows[i][name]), "%s: row %d: %s", text, i, name)
			}
		}
		require.Contains(t, golden.Told(got.Frames), "facts are of full hours: 30 min", text)
		together := ask(t, fleet, q, w)
		require.NoError(t, together.Error)
		compared := 0
		for _, row := range labelled(together.Frames) {
			key := ""
			for _, g := range groups {
				key += fmt.Sprint(row[g.(string)], "|")
			}
			for _, metric := range added {
				if v, ok := row[metric].(float64); ok {
					require.True(t, golden.Same(sums[key+metric], v), "%s: %s%s", text, key, metric)
					compared++
				}
			}
		}
		require.Positive(t, compared)
	}
}
