package plugin

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/check"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// health runs a health check and returns its findings by store.
func health(t *testing.T, d *Datasource) (*backend.CheckHealthResult, map[string]finding) {
	t.Helper()
	result, err := d.CheckHealth(context.Background(), &backend.CheckHealthRequest{PluginContext: someone("Admin")})
	require.NoError(t, err)
	var details struct{ Findings []finding }
	require.NoError(t, json.Unmarshal(result.JSONDetails, &details))
	found := map[string]finding{}
	for _, f := range details.Findings {
		require.Empty(t, found[f.Store].Store, "two findings of %s", f.Store)
		require.Contains(t, strings.ToLower(result.Message), strings.ToLower(strings.TrimRight(f.Text, ".")))
		found[f.Store] = f
	}
	return result, found
}

func severities(found map[string]finding) map[string]string {
	all := map[string]string{}
	for store, f := range found {
		all[store] = f.Severity
	}
	return all
}

func TestHealthAllWell(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.ClockSkew = 0 })
	dir, _ := writePool(t, o)
	cache := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	t.Setenv("GF_PLUGIN_ALLOWED_DIRS", dir+","+cache)
	d := open(t, o.End, map[string]any{"snapshotDir": link, "cacheDir": cache, "jobs": "sqlite"})
	result, found := health(t, d)
	require.Equal(t, backend.HealthStatusOk, result.Status, result.Message)
	require.Equal(t, map[string]string{"snapshots": "ok", "timezone": "ok", "jobs": "ok", "cache": "ok",
		"directories": "ok", "clocks": "ok"}, severities(found), result.Message)
	require.Contains(t, found["snapshots"].Text, "in "+dir, "the path as resolved")
	require.Equal(t, dir, found["snapshots"].Details["path"])
	require.Contains(t, found["snapshots"].Text, "2 month file(s)")
	require.Contains(t, found["jobs"].Text, "jobs.db")
	require.Contains(t, found["cache"].Text, cache)
	require.Contains(t, found["directories"].Text, "this server allows")
}

// Without epoch ads that tell what jobs have saved a note says how to get them.
func TestHealthWithoutCheckpoints(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	db, err := sql.Open("sqlite", filepath.Join(dir, "jobs.db"))
	require.NoError(t, err)
	_, err = db.Exec("DELETE FROM ads WHERE kind = 'epoch'")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite"}))
	require.Equal(t, check.Note, found["jobs"].Severity)
	require.Contains(t, found["jobs"].Text, "No epoch ad has JobLastCheckpointTime")
	require.Contains(t, found["jobs"].Text, "ADSTASH_SCHEDD_JOB_EPOCH_HISTORY = True")
}

func TestHealthRowsAndNewest(t *testing.T) {
	o := small()
	dir, p := writePool(t, o)
	rows, newest := 0, time.Time{}
	for s, err := range p.Snapshots(context.Background()) {
		require.NoError(t, err)
		rows += len(s.Rows)
		newest = s.Time
	}
	_, found := health(t, open(t, newest.Add(7*time.Minute), map[string]any{"snapshotDir": dir}))
	require.InDelta(t, rows, found["snapshots"].Details["rows"], 0)
	require.Contains(t, found["snapshots"].Text, "(7 min old)")
	require.InDelta(t, (7 * time.Minute).Seconds(), found["snapshots"].Details["ageSeconds"], 61,
		"snapshots under a minute apart are one")
	require.Contains(t, found["jobs"].Text, "none", "without a job source its absence is said")
}

func TestHealthStale(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	result, found := health(t, open(t, o.End.Add(3*time.Hour), map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusOk, result.Status, "old snapshots still answer")
	require.Equal(t, check.Warning, found["snapshots"].Severity)
	require.Contains(t, found["snapshots"].Text, "(3 h ")
	require.Contains(t, found["snapshots"].Text, "check its cron job")
	require.True(t, strings.HasPrefix(result.Message, "Warning: Snapshots:"), "the worst first: %s", result.Message)
}

func TestHealthDirectory(t *testing.T) {
	o := small()
	empty := t.TempDir()
	missing := filepath.Join(empty, "missing")
	for dir, words := range map[string][]string{
		missing: {missing, "does not exist", "snapshotDir", "mounted"},
		empty:   {empty, "no month file gpu_state_YYYY-MM.db", "collector"},
	} {
		result, _ := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
		require.Equal(t, backend.HealthStatusError, result.Status)
		for _, word := range words {
			require.Contains(t, result.Message, word)
		}
	}
}

func TestHealthBrokenFileAmongGoodOnes(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu_state_2025-09.db"),
		[]byte(strings.Repeat("no database ", 1000)), 0o600))
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusOk, result.Status, "the other files answer")
	require.Equal(t, check.Warning, found["gpu_state_2025-09.db"].Severity)
	require.Contains(t, found["gpu_state_2025-09.db"].Text, "not a SQLite file: restore it")
	require.Equal(t, check.OK, found["snapshots"].Severity)
	require.Contains(t, found["snapshots"].Text, "2 month file(s)", "those that can be read")

	for _, name := range []string{"gpu_state_2025-10.db", "gpu_state_2025-11.db"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	result, _ = health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusError, result.Status, "no file can be read")
}

func TestHealthCache(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusOk, result.Status)
	require.Contains(t, found["cache"].Text, "in memory only", "no cacheDir is said")
	require.Contains(t, found["cache"].Text, "Set cacheDir")

	// a directory that is a file cannot be used, and answers are right anyway
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	result, found = health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "cacheDir": file}))
	require.Equal(t, backend.HealthStatusOk, result.Status)
	require.Equal(t, check.Warning, found["cache"].Severity)
	require.Contains(t, found["cache"].Text, file+" cannot be used")
	require.Contains(t, found["cache"].Text, "write access")
}

// A cache that is too small is reported once a panel has needed it, with a setting that suffices.
func TestHealthMemory(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.Machines, o.GPUs = 40, 160 })
	dir, _ := writePool(t, o)
	asked := func(cacheMaxMB int) map[string]finding {
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "cacheMaxMB": cacheMaxMB})
		_, found := health(t, d)
		require.NotContains(t, found, "memory")
		require.Len(t, answered(t, d, queryOf(t, o, "A", `{"queryType": "evictions", "view": "summary"}`)), 1)
		_, found = health(t, d)
		return found
	}
	little := asked(1)["memory"]
	require.Equal(t, check.Warning, little.Severity)
	enough := int(little.Details["cacheMaxMB"].(float64))
	require.Contains(t, little.Text, "Set it to at least "+strconv.Itoa(enough))
	require.NotContains(t, asked(enough+1), "memory")
}

func TestHealthLists(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "masked_hosts.yaml"), []byte("excluded_hosts: [a, b]\n"), 0o600))
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir}))
	require.Equal(t, backend.HealthStatusError, result.Status, "no query is answered without the list")
	require.Contains(t, found["lists"].Text, "hostExclusionsFile")
}

func TestHealthJobs(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	result, found := health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": "none.db"}))
	require.Equal(t, backend.HealthStatusError, result.Status, "a configured store does not answer")
	require.Equal(t, check.Error, found["jobs"].Severity)
	require.Contains(t, found["jobs"].Text, "none.db")

	outside := filepath.Join(t.TempDir(), "jobs.db")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link.db")))
	_, found = health(t, open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": "link.db"}))
	require.Equal(t, check.Error, found["jobs"].Severity, "a link that leads out of the directory")
	require.Contains(t, found["jobs"].Text, "link.db")
}

// Health shows the figures of job ads. If a job source fails, only its own figures are missing; a query for only one of
// them, such as an alert rule's, gets the error.
func TestHealthOfJobAds(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	ask := func(jobsPath, metrics string) backend.DataResponse {
		d := open(t, o.End, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "jobsPath": jobsPath})
		response, err := d.QueryData(context.Background(), &backend.QueryDataRequest{Queries: []backend.DataQuery{{
			RefID: "A", JSON: json.RawMessage(`{"queryType": "allocation", "view": "health", "metrics": [` + metrics + `]}`),
			TimeRange: backend.TimeRange{From: o.Start, To: o.End},
		}}})
		require.NoError(t, err)
		return response.Responses["A"]
	}
	names := func(r backend.DataResponse) (names []string) {
		require.NoError(t, r.Error)
		for _, f := range r.Frames[0].Fields {
			names = append(names, f.Name)
		}
		return names
	}
	all := ask("jobs.db", "")
	require.Equal(t, []string{"snapshotAgeSeconds", "coveragePercent", "gpusSeen", "gpusLost", "jobsLagSeconds",
		"linkRate", "clockErrorSeconds"}, names(all))
	lag, err := all.Frames[0].Fields[4].FloatAt(0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, lag, 0.0)
	rate, err := all.Frames[0].Fields[5].FloatAt(0)
	require.NoError(t, err)
	require.Greater(t, rate, 90.0)

	broken := "chtc_owned" // a file, but none of job ads
	without := ask(broken, "")
	require.Equal(t, []string{"snapshotAgeSeconds", "coveragePercent", "gpusSeen", "gpusLost"}, names(without))
	require.True(t, slices.ContainsFunc(without.Frames[0].Meta.Notices, func(n data.Notice) bool {
		return n.Severity == data.NoticeSeverityWarning &&
			strings.Contains(n.Text, "jobsLagSeconds, linkRate, clockErrorSeconds are left out")
	}))
	for _, metric := range []string{`"jobsLagSeconds"`, `"linkRate"`, `"clockErrorSeconds"`} {
		failed := ask(broken, metric)
		require.Error(t, failed.Error, metric)
		require.Equal(t, backend.ErrorSourceDownstream, failed.ErrorSource, metric)
	}
	require.Equal(t, []string{"gpusSeen"}, names(ask(broken, `"gpusSeen"`)))
}

// get asks for a resource as Grafana does.
func get(t *testing.T, d *Datasource, path string, parameters url.Values) (status int, header http.Header,
	body []byte) {
	t.Helper()
	err := d.CallResource(context.Background(), &backend.CallResourceRequest{Method: http.MethodGet, Path: path,
		URL: path + "?" + parameters.Encode()},
		backend.CallResourceResponseSenderFunc(func(r *backend.CallResourceResponse) error {
			status, header = r.Status, r.Headers
			body = append(body, r.Body...)
			return nil
		}))
	require.NoError(t, err)
	return status, header, body
}

func getValues(t *testing.T, d *Datasource, dimension string, filter string, window pool.Window) []option {
	t.Helper()
	parameters := url.Values{"from": {fmt.Sprint(window.From / millisecond)}, "to": {fmt.Sprint(window.To / millisecond)}}
	if filter != "" {
		parameters.Set("filter", filter)
	}
	status, _, body := get(t, d, "values/"+dimension, parameters)
	require.Equal(t, http.StatusOK, status, string(body))
	var options []option
	require.NoError(t, json.Unmarshal(body, &options))
	return options
}

// rowsOf are the rows of the pool in a window, without those of excluded machines, with what a naive reader finds of
// them.
type naiveRow struct{ category, slots, device, machine, ownership, project, user string }

func naiveRows(t *testing.T, p *samplepool.Pool, window pool.Window) []naiveRow {
	t.Helper()
	owned := map[string]samplepool.Machine{}
	for _, m := range p.Machines() {
		owned[m.Name] = m
	}
	type day struct{ machine, date string }
	hasProject, hasPrimary, device := map[day]bool{}, map[day]bool{}, map[[2]string]string{}
	var all []naiveRow
	for pass := range 2 {
		for s, err := range p.Snapshots(context.Background()) {
			require.NoError(t, err)
			date := s.Time.UTC().Format("2006-01-02")
			for _, r := range s.Rows {
				m := owned[r.Machine]
				if r.AssignedGPUs == "" || r.Machine == "" || m.Excluded {
					continue
				}
				primary := !strings.Contains(strings.ToLower(r.Name), "backfill")
				if pass == 0 {
					if primary {
						hasPrimary[day{r.Machine, date}] = true
						hasProject[day{r.Machine, date}] = hasProject[day{r.Machine, date}] ||
							strings.TrimSpace(r.PrioritizedProjects) != ""
					}
					if r.DeviceName != "" {
						device[[2]string{r.Machine + date, r.AssignedGPUs}] = r.DeviceName
					}
					continue
				}
				if micros := s.Time.UnixMicro(); micros < window.From || micros > window.To {
					continue
				}
				require.True(t, hasPrimary[day{r.Machine, date}], "the sample has primary rows every day")
				n := naiveRow{device: device[[2]string{r.Machine + date, r.AssignedGPUs}], machine: r.Machine,
					project: r.PrioritizedProjects, slots: "Real", ownership: "Open Capacity"}
				chtc := m.Ownership == pool.CHTCOwned
				switch {
				case chtc:
					n.ownership = "CHTC Owned"
				case hasProject[day{r.Machine, date}]:
					n.ownership = "Researcher Owned"
				}
				switch {
				case !primary:
					n.slots, n.category = "Backfill", "Backfill ("+n.ownership+")"
				case chtc:
					n.category = "Prioritized (CHTC Owned)"
				case strings.TrimSpace(r.PrioritizedProjects) != "":
					n.category = "Prioritized (Researcher Owned)"
				default:
					n.category = "Open Capacity"
				}
				if r.State == "Claimed" || r.State == "Preempting" {
					n.user = r.RemoteOwner
					if n.user == "" {
						n.user = "Unknown"
					}
				}
				all = append(all, n)
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

func TestValuesAgainstTheRows(t *testing.T) {
	o := small(func(o *samplepool.Options) { o.OddMachines, o.StaleRows, o.RowNoise = false, 0, 0 })
	dir, p := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	for _, window := range []pool.Window{
		{From: o.Start.UnixMicro(), To: o.End.UnixMicro()},
		{From: o.Start.Add(7 * time.Hour).UnixMicro(), To: o.Start.Add(9 * time.Hour).UnixMicro()},
		{From: o.Start.Add(23 * time.Hour).UnixMicro(), To: o.Start.Add(25 * time.Hour).UnixMicro()},
	} {
		rows := naiveRows(t, p, window)
		device, category := rows[0].device, rows[0].category
		for filter, passes := range map[string]func(naiveRow) bool{
			``:                                     func(naiveRow) bool { return true },
			`{"devices": ["` + device + `"]}`:      func(r naiveRow) bool { return r.device == device },
			`{"categories": ["` + category + `"]}`: func(r naiveRow) bool { return r.category == category },
			`{"slots": ["Backfill"]}`:              func(r naiveRow) bool { return r.slots == "Backfill" },
			`{"ownerships": ["Researcher Owned"]}`: func(r naiveRow) bool { return r.ownership == "Researcher Owned" },
			`{"machines": ["/1/"]}`:                func(r naiveRow) bool { return strings.Contains(r.machine, "1") },
			`{"users": ["/@/"], "slots": ["Real"]}`: func(r naiveRow) bool {
				return r.slots == "Real" &&
					strings.Contains(r.user, "@")
			},
		} {
			for dimension, of := range map[string]func(naiveRow) string{
				"category": func(r naiveRow) string { return r.category }, "slots": func(r naiveRow) string { return r.slots },
				"device": func(r naiveRow) string { return r.device }, "machine": func(r naiveRow) string { return r.machine },
				"ownership": func(r naiveRow) string { return r.ownership }, "user": func(r naiveRow) string { return r.user },
			} {
				want := map[string]bool{}
				for _, r := range rows {
					if passes(r) && of(r) != "" {
						want[of(r)] = true
					}
				}
				got := map[string]bool{}
				for _, o := range getValues(t, d, dimension, filter, window) {
					require.False(t, got[o.Text], "twice")
					got[o.Text] = true
				}
				require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "%s of %s", dimension, filter)
			}
		}
	}
}

// GPUs without a project can be chosen: their value is a pattern of the empty text.
func TestNoProjectIsAValue(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	all := pool.Window{From: o.Start.UnixMicro(), To: o.End.UnixMicro()}
	projects := getValues(t, d, "project", "", all)
	require.Equal(t, option{"No project", "/^$/"}, projects[0])
	require.Greater(t, len(projects), 1)
	require.Equal(t, []option{{"No project", "/^$/"}}, getValues(t, d, "project", `{"projects": ["/^$/"]}`, all))
	for _, c := range getValues(t, d, "category", `{"projects": ["/^$/"]}`, all) {
		require.NotContains(t, c.Text, "Researcher", "such GPUs have projects")
	}
	require.NotContains(t, getValues(t, d, "project", `{"categories": ["Priority-ResearcherOwned"]}`, all),
		option{"No project", "/^$/"})
}

func TestValuesAreInTableOrder(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	all := pool.Window{From: o.Start.UnixMicro(), To: o.End.UnixMicro()}
	require.Equal(t, []option{
		{"Prioritized (Researcher Owned)", "Priority-ResearcherOwned"}, {"Prioritized (CHTC Owned)", "Priority-CHTCOwned"},
		{"Open Capacity", "Shared"},
		{"Backfill (Researcher Owned)", "Backfill-ResearcherOwned"}, {"Backfill (CHTC Owned)", "Backfill-CHTCOwned"},
		{"Backfill (Open Capacity)", "Backfill-OpenCapacity"},
	}, getValues(t, d, "category", "", all))
	require.Equal(t, []option{{"Real", "Real"}, {"Backfill", "Backfill"}}, getValues(t, d, "slots", "", all))
	machines := getValues(t, d, "machine", "", all)
	require.True(t, slices.IsSortedFunc(machines, func(a, b option) int { return strings.Compare(a.Value, b.Value) }))

	status, _, body := get(t, d, "values/device", nil)
	require.Equal(t, http.StatusOK, status)
	var newest []option
	require.NoError(t, json.Unmarshal(body, &newest))
	require.Equal(t, getValues(t, d, "device", "", all), newest, "without from and to: the newest 7 days")
}

func TestResourceErrors(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	for _, c := range []struct {
		path       string
		parameters url.Values
		status     int
		words      []string
	}{
		{"values/colour", nil, 404, []string{"colour", "category", "slots", "device", "machine", "ownership", "project",
			"user", "memory", "tier", "schedd"}},
		{"value", nil, 404, []string{"/values/{dimension}", "/range"}},
		{"values/device", url.Values{"filter": {`{"device": ["x"]}`}}, 400, []string{"device", "devices"}},
		{"values/device", url.Values{"filter": {`{"devices": ["/(/"]}`}}, 400, []string{"pattern"}},
		{"values/device", url.Values{"filter": {`{"devices": ["$device"]}`}}, 400, []string{"$device"}},
		{"values/device", url.Values{"from": {"yesterday"}}, 400, []string{"yesterday"}},
		{"values/device", url.Values{"to": {"253402300800000"}}, 400, []string{"is not a time"}},
		{"values/device", url.Values{"from": {"2"}, "to": {"1"}}, 400, []string{"time range"}},
	} {
		status, header, body := get(t, d, c.path, c.parameters)
		require.Equal(t, c.status, status, "%s %s", c.path, body)
		require.Equal(t, "application/json", header.Get("Content-Type"))
		var answer struct{ Message string }
		require.NoError(t, json.Unmarshal(body, &answer))
		for _, word := range c.words {
			require.Contains(t, answer.Message, word)
		}
	}
	status, _, body := get(t, open(t, o.End, map[string]any{"snapshotDir": dir + "-missing"}), "range", nil)
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, string(body), "does not exist")
}

func TestRange(t *testing.T) {
	o := small()
	dir, p := writePool(t, o)
	truth, err := p.Truth(context.Background())
	require.NoError(t, err)
	status, _, body := get(t, open(t, o.End, map[string]any{"snapshotDir": dir}), "range", nil)
	require.Equal(t, http.StatusOK, status)
	var got map[string]int64
	require.NoError(t, json.Unmarshal(body, &got))
	require.Equal(t, truth.Snapshots[0].UnixMilli(), got["from"])
	require.Equal(t, got["to"], got["newest"])
	newest := truth.Snapshots[len(truth.Snapshots)-1]
	require.InDelta(t, newest.UnixMilli(), got["newest"], 60_000, "snapshots within 60 s are one")
	require.Empty(t, getValues(t, open(t, o.End, map[string]any{"snapshotDir": dir}), "machine", "",
		pool.Window{From: got["newest"]*millisecond + 1, To: got["newest"]*millisecond + pool.Hour}))
	require.NotEmpty(t, getValues(t, open(t, o.End, map[string]any{"snapshotDir": dir}), "machine", "",
		pool.Window{From: got["newest"]*millisecond - millisecond, To: got["newest"] * millisecond}),
		"the newest snapshot lies in it")
}

func TestValuesAreCutAndSaySo(t *testing.T) {
	rows := make([]snapshotstest.Row, mostOptions+1)
	for i := range rows {
		rows[i] = snapshotstest.Row{"Name": "slot1@m", "Machine": fmt.Sprintf("m%05d", i), "AssignedGPUs": "GPU-1",
			"State": "Unclaimed", "timestamp": "2025-10-01 00:00:00.000000"}
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": rows})
	d := open(t, time.Now(), map[string]any{"snapshotDir": dir})
	status, header, body := get(t, d, "values/machine", nil)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "5001", header.Get("X-Truncated"))
	var options []option
	require.NoError(t, json.Unmarshal(body, &options))
	require.Len(t, options, mostOptions)
	require.Equal(t, option{"m00000", "m00000"}, options[0])
	_, header, _ = get(t, d, "values/slots", nil)
	require.Empty(t, header.Get("X-Truncated"))
}

// The access points are those with a job that waited in the window, of the users and projects of the filter.
func TestAccessPoints(t *testing.T) {
	o := small()
	dir, _ := writePool(t, o)
	files, err := filepath.Glob(filepath.Join(dir, "job_pressure_*.db"))
	require.NoError(t, err)
	window := pool.Window{From: o.End.Add(-3 * time.Hour).UnixMicro(), To: o.End.UnixMicro()}
	want, ofOne, user := map[string]bool{}, map[string]bool{}, ""
	for _, file := range files {
		db, err := sql.Open("sqlite", file)
		require.NoError(t, err)
		rows, err := db.Query("SELECT ScheddName, Owner FROM job_pressure WHERE first_seen <= ? AND last_seen >= ? "+
			"ORDER BY GlobalJobId", window.To/pool.Second, window.From/pool.Second)
		require.NoError(t, err)
		for rows.Next() {
			var schedd, owner string
			require.NoError(t, rows.Scan(&schedd, &owner))
			if user == "" {
				user = owner
			}
			if want[schedd] = true; owner == user {
				ofOne[schedd] = true
			}
		}
		require.NoError(t, errors.Join(rows.Err(), rows.Close(), db.Close()))
	}
	require.NotEmpty(t, want)
	d := open(t, o.End, map[string]any{"snapshotDir": dir})
	values := func(filter string) (names []string) {
		for _, option := range getValues(t, d, "schedd", filter, window) {
			require.Equal(t, option.Text, option.Value)
			names = append(names, option.Value)
		}
		return names
	}
	require.Equal(t, slices.Sorted(maps.Keys(want)), values(""))
	view := &queues.View{Names: timeline.NewNames()}
	atEdge := queues.Row{First: 100, Last: 200, Schedd: view.Names.Symbol("ap1")}
	view.Days = []*queues.Day{{Rows: []queues.Row{atEdge}}}
	for _, edge := range []pool.Micros{100 * pool.Second, 200 * pool.Second} {
		require.Len(t, queuedValues(query.BySchedd, view, &query.Plan{Window: pool.Window{From: edge, To: edge}}), 1)
	}
	require.Equal(t, slices.Sorted(maps.Keys(ofOne)), values(fmt.Sprintf(`{"users": [%q]}`, user)))
	require.Empty(t, values(`{"users": ["nobody"]}`))
}
