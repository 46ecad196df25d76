package allocation_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

func TestNotices(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago", 15)
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	frames := s.Ask(t, nil, w, `{"queryType": "allocation", "filter": {"devices": ["NVIDIA H200", "H300"], "machines": ["/gpu/", "/nowhere$/"]}}`)
	require.True(t, hasNotice(frames, "filter.devices: no value in the time range matches H300"))
	require.True(t, hasNotice(frames, "filter.machines: no value in the time range matches /nowhere$/"))
	require.True(t, hasNotice(frames, "excluded by"))
	require.True(t, hasNotice(frames, "rows without a GPU id"))
	require.True(t, hasNotice(frames, "gap between snapshots"))
	require.True(t, hasNotice(frames, "coverage 96.67 %: 58 of 60 h, 228 snapshots, 224 slices"))
	frames = s.Ask(t, nil, w, `{"queryType": "userHours", "filter": {"users": ["nobody@x", "/^user00/"], "projects": ["DSI", "Art"]}}`)
	require.True(t, hasNotice(frames, "filter.users: no value in the time range matches nobody@x"))
	require.True(t, hasNotice(frames, "filter.projects: no value in the time range matches Art"))
	frames = s.Ask(t, nil, w, `{"queryType": "allocation", "view": "current", "filter": {"users": ["nobody@x"], "devices": ["H300"]}}`)
	require.True(t, hasNotice(frames, "filter.devices: no value in the time range matches H300"))
	require.False(t, hasNotice(frames, "filter.users"), "a user may hold nothing now")
}

// An excluded machine is in `machines` with its reason, and in no other answer.
func TestExcludedMachine(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-a"), "UTC", 15)
	w := golden.Window(t, "2025-09-29T12:00:00Z", "2025-10-02T00:00:00Z")
	const excluded = "voyles2000.chtc.example.org"
	var found map[string]any
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "machines"}`)) {
		if r["machine"] == excluded {
			found = r
		}
	}
	require.NotNil(t, found)
	require.NotEmpty(t, found["excludedReason"])
	require.Nil(t, found["allocated"])
	require.Nil(t, found["gpus"])
	require.NotNil(t, found["lastSeen"])
	for _, text := range []string{`{"queryType": "allocation", "view": "current"}`,
		`{"queryType": "allocation", "view": "summary", "groupBy": ["machine"]}`,
		`{"queryType": "userHours", "groupBy": ["machine"]}`} {
		for _, r := range golden.Rows(s.Ask(t, nil, w, text)) {
			require.NotEqual(t, excluded, r["machine"])
		}
	}
	require.Empty(t, s.Ask(t, nil, w, `{"queryType": "userHours", "filter": {"machines": ["`+excluded+`"]}}`)[0].Fields)
}

// Allocation of a user is what userHours says, per covered hour.
func TestAllocationOfUsers(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago", 60)
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	const filter = `"filter": {"users": ["/^user00[0-3]@/", "Unknown"]}`
	hours := map[string]float64{}
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "userHours", `+filter+`}`)) {
		if r["rowType"] == "group" {
			hours[r["category"].(string)] = r["gpuHours"].(float64)
		}
	}
	require.NotEmpty(t, hours)
	coverage := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "health"}`))[0]["coveragePercent"].(float64)
	rows := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "metrics": ["allocated"], `+filter+`}`))
	require.Len(t, rows, len(hours))
	for _, r := range rows {
		require.True(t, golden.Same(hours[r["category"].(string)], r["allocated"].(float64)*coverage/100*w.Hours()), "%v", r)
	}
}

// Of many users the first by hours have a series, and the rest together one.
func TestTopUsers(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-a"), "UTC", 15)
	w := golden.Window(t, "2025-09-29T12:00:00Z", "2025-10-02T00:00:00Z")
	totals := map[string]float64{}
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "userHours", "groupBy": []}`)) {
		if r["rowType"] == "user" {
			totals[r["user"].(string)] = r["gpuHours"].(float64)
		}
	}
	require.Greater(t, len(totals), 12)
	for limit, n := range map[string]int{"": 10, `, "limit": 3`: 3, `, "limit": 1000`: len(totals)} {
		frames := s.Ask(t, nil, w, `{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "window"`+limit+`}`)
		series := golden.Series(frames, "user")
		rest, smallest, kept := 0.0, 1e9, 0
		for user, total := range totals {
			if points, there := series[user]; there {
				require.True(t, golden.Same(total, points[0].Value))
				smallest, kept = min(smallest, total), kept+1
			} else {
				rest += total
			}
		}
		require.Equal(t, n, kept)
		if n == len(totals) {
			require.NotContains(t, series, query.Other)
			continue
		}
		require.True(t, golden.Same(rest, series[query.Other][0].Value))
		for user, total := range totals {
			if series[user] == nil {
				require.LessOrEqual(t, total, smallest)
			}
		}
		require.Equal(t, query.Other, frames[len(frames)-1].Fields[1].Labels["user"])
		require.True(t, hasNotice(frames, fmt.Sprintf("the %d users with the most hours, the other %d are Other", n,
			len(totals)-n)))
	}
}

// A limit cuts rows, not figures.
func TestLimit(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-a"), "UTC", 15)
	w := golden.Window(t, "2025-09-29T12:00:00Z", "2025-10-02T00:00:00Z")
	full := golden.Rows(s.Ask(t, nil, w, `{"queryType": "userHours"}`))
	frames := s.Ask(t, nil, w, `{"queryType": "userHours", "limit": 4}`)
	require.Equal(t, append(slices.Clone(full[:4]), full[len(full)-1]), golden.Rows(frames))
	require.True(t, hasNotice(frames, fmt.Sprintf("showing 4 of %d rows", len(full)-1)))
	frames = s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "limit": 2}`)
	require.Len(t, frames, 2)
	require.True(t, hasNotice(frames, "showing 2 of 36 GPUs"))
}

// Every bucket but the newest is complete, whether the window ends with the data or after them.
func TestCompleteBucketsOnly(t *testing.T) {
	s := open(t, golden.Pool(t, "pool-a"), "UTC", 15)
	newest := "2025-10-01T23:44:59.9Z" // the last snapshot is about there
	for to, want := range map[string]int{"2025-10-01T21:00:00Z": 3, "2025-10-01T21:30:00Z": 3, newest: 5,
		"2025-10-03T00:00:00Z": 5} {
		frames := s.Ask(t, nil, golden.Window(t, "2025-10-01T17:59:00Z", to),
			`{"queryType": "allocation", "metrics": ["allocated"], "filter": {"categories": ["Shared"]}, "bucket": "1h", "completeBucketsOnly": true}`)
		require.Len(t, frames, 1)
		require.Equal(t, want, frames[0].Rows(), to)
	}
}

// Errors of the timeline come through as they are: whose fault, and what to do.
func TestErrors(t *testing.T) {
	s := open(t, t.TempDir(), "UTC", 15)
	w := pool.Window{From: 0, To: pool.Day}
	answer := func(ctx context.Context, s runstest.Source, w pool.Window, text string) error {
		m, err := query.Parse([]byte(text))
		require.NoError(t, err)
		_, err = s.Answer(ctx, nil, query.Request{Model: m, Window: w})
		return err
	}
	err := answer(t.Context(), s, w, `{"queryType": "allocation"}`)
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))
	require.ErrorContains(t, err, "no month file")
	err = answer(t.Context(), s, w, `{"queryType": "userHours", "view": "pie"}`)
	require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "the query is looked at first")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	good := open(t, golden.Pool(t, "pool-a"), "UTC", 15)
	for _, view := range []string{"timeseries", "summary", "current", "stateTimeline", "machines", "health",
		"annotations"} {
		err := answer(ctx, good, golden.Window(t, "2025-09-29T12:00:00Z", "2025-10-02T00:00:00Z"),
			`{"queryType": "allocation", "view": "`+view+`"}`)
		require.ErrorIs(t, err, context.Canceled, view)
	}
}

// A window outside the reach of any file has no data; a broken file among good ones is a notice.
func TestNoSnapshots(t *testing.T) {
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": {{"Name": "slot1@m", "Machine": "m",
		"AssignedGPUs": "GPU-0", "State": "Claimed", "RemoteOwner": "ann", "timestamp": "2025-06-02 12:00:00.000000"}}})
	s := open(t, dir, "UTC", 15)
	for _, text := range []string{`"allocation"`, `"allocation", "view": "summary"`, `"allocation", "view": "machines"`,
		`"allocation", "view": "stateTimeline"`, `"allocation", "view": "annotations"`, `"userHours"`,
		`"userHours", "view": "timeseries"`} {
		for _, w := range []pool.Window{golden.Window(t, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z"),
			golden.Window(t, "2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z"),
			golden.Window(t, "2025-06-02T12:00:00.000001Z", "2025-06-02T12:10:00Z")} {
			frames := s.Ask(t, nil, w, `{"queryType": `+text+`}`)
			require.Len(t, frames, 1, text)
			require.Empty(t, frames[0].Fields, text)
		}
		frames := s.Ask(t, nil, golden.Window(t, "2025-06-02T12:00:00Z", "2025-06-02T12:00:00Z"), `{"queryType": `+text+`}`)
		require.Equal(t, strings.Contains(text, "annotations"), len(frames[0].Fields) == 0,
			"a window of no length holds its snapshot: %s", text)
	}
}

// Parts of GPUs are counted by profile, and are GPUs like any other.
func TestMachinesTellMIGParts(t *testing.T) {
	dir := t.TempDir()
	row := func(id, device string) snapshotstest.Row {
		return snapshotstest.Row{"Name": "slot1@a", "AssignedGPUs": id, "State": "Unclaimed", "GPUs_DeviceName": device,
			"Machine": "a", "timestamp": "2025-10-01 10:00:00.000000"}
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-10.db": {
		row("GPU-1", "NVIDIA A100-SXM4-80GB"), row("MIG-1", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"),
		row("MIG-2", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"), row("MIG-3", "NVIDIA A100-SXM4-80GB MIG 3g.40gb"),
		row("MIG-4", "NVIDIA A100-SXM4-80GB"),
	}})
	rows := golden.Rows(open(t, dir, "UTC", 15).Ask(t, nil, golden.Window(t, "2025-10-01T00:00:00Z",
		"2025-10-02T00:00:00Z"),
		`{"queryType": "allocation", "view": "machines"}`))
	require.Len(t, rows, 1)
	require.Equal(t, 5.0, rows[0]["gpus"])
	require.Equal(t, 1.0, rows[0]["wholeGpus"])
	require.Equal(t, "2 × 1g.10gb, 1 × 3g.40gb, 1 × unknown profile", rows[0]["migParts"])
}

// A window that is long after the data, or in an outage, still finds the newest snapshot before its end.
func TestCurrentLooksBack(t *testing.T) {
	var rows []snapshotstest.Row
	for _, text := range []string{"2025-06-02 12:00:00.000000", "2025-06-02 12:15:00.000000",
		"2025-06-20 00:00:00.000000"} {
		rows = append(rows, snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-0",
			"State": "Unclaimed", "timestamp": text})
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	s := open(t, dir, "UTC", 15)
	for to, age := range map[string]string{"2025-06-02T12:20:00Z": "", "2025-06-12T12:15:00Z": "240 h old",
		"2025-07-20T00:00:00Z": "720 h old"} {
		frames := s.Ask(t, nil, golden.Window(t, "2025-06-01T00:00:00Z", to), `{"queryType": "allocation", "view": "current"}`)
		require.Len(t, golden.Rows(frames), 1, to)
		if age == "" {
			require.False(t, hasNotice(frames, "old"))
		} else {
			require.True(t, hasNotice(frames, age), "%v", frames[0].Meta.Notices)
		}
	}
	frames := s.Ask(t, nil, golden.Window(t, "2025-05-01T00:00:00Z", "2025-06-02T11:00:00Z"),
		`{"queryType": "allocation", "view": "current"}`)
	require.Empty(t, frames[0].Fields)
}

func hasNotice(frames data.Frames, text string) bool {
	return strings.Contains(golden.Told(frames), text)
}

func open(t testing.TB, dir string, zone any, sliceMinutes int) runstest.Source {
	t.Helper()
	s := runstest.Open(t, dir, zone)
	s.Env.SliceMinutes = sliceMinutes
	return s
}

// A cadence that is short for the slices makes averages too high: the answer says so, and with what remedy.
func TestCadenceNotice(t *testing.T) {
	window := golden.Window(t, "2025-09-28T00:00:00Z", "2025-09-29T00:00:00Z")
	for minutes, told := range map[int]bool{0: false, 5: false, 10: true, 15: true, 60: true} {
		s := open(t, golden.Pool(t, "pool-c"), "America/Chicago", minutes) // a snapshot every 5 min
		for _, q := range []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`} {
			var texts []string
			for _, n := range s.Ask(t, nil, window, q)[0].Meta.Notices {
				texts = append(texts, n.Text)
			}
			all := strings.Join(texts, "\n")
			require.Equal(t, told, strings.Contains(all, "Set sliceMinutes to 0"), "%d min: %s", minutes, all)
			require.Equal(t, told, strings.Contains(all, "the collector runs every 5 min"), "%d min: %s", minutes, all)
		}
	}
	pool := open(t, golden.Pool(t, "pool-a"), "UTC", 15) // every 15 min
	window = golden.Window(t, "2025-09-30T00:00:00Z", "2025-10-01T00:00:00Z")
	for _, n := range pool.Ask(t, nil, window, `{"queryType": "allocation", "view": "summary"}`)[0].Meta.Notices {
		require.NotContains(t, n.Text, "sliceMinutes")
	}
}

// sums adds up a metric of a table's rows by the values of some columns.
func sums(rows []map[string]any, metric string, by func(row map[string]any) string) map[string]float64 {
	found := map[string]float64{}
	for _, r := range rows {
		if v, ok := r[metric].(float64); ok {
			found[by(r)] += v
		}
	}
	return found
}

// Prevented GPUs are divided by reason.
func TestReasons(t *testing.T) {
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	s := open(t, golden.Pool(t, "pool-b"), "America/Chicago", 15)
	reasons := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "totals": false, "groupBy": ["preventReason"]}`))
	all := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "totals": false, "groupBy": ["slots"]}`))
	side := func(r map[string]any) string { return r["slots"].(string) }
	prevented, total := sums(reasons, "prevented", side), sums(all, "prevented", side)
	require.Greater(t, total["Real"], 0.0)
	require.InDelta(t, total["Real"], prevented["Real"], 1e-9)
	named := 0
	for _, r := range reasons {
		if r["preventReason"] == "" {
			require.Zero(t, r["prevented"], "a GPU without a reason is not prevented")
		} else {
			named++
		}
	}
	require.Positive(t, named)
	current := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "current"}`))
	for _, r := range current {
		if r["state"] == "Prevented" {
			require.NotEmpty(t, strings.TrimSpace(r["preventReason"].(string)))
		}
	}
}

// For more than 500 GPUs the state timeline shows devices and machines, with the states of all their GPUs.
func TestStateTimelineByMachine(t *testing.T) {
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone, o.Drains, o.Prevented, o.MachineDown = 100, 560, "UTC", 30, 30, 30
	o.End = o.Start.Add(20 * time.Hour)
	p, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, p.WriteSnapshots(context.Background(), dir))
	s := open(t, dir, "UTC", 15)
	w := pool.Window{From: o.Start.Add(70 * time.Minute).UnixMicro(), To: o.End.UnixMicro()}

	one := s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "limit": 50000}`)
	require.Greater(t, len(one), 500)
	require.False(t, hasNotice(one, "GPUs are more than"))
	require.Len(t, s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "limit": 7}`), 7, "a cut, as asked")
	gpus := map[string][]*data.Frame{}
	for _, f := range one {
		labels := f.Fields[1].Labels
		name := labels["device"] + " · " + labels["machine"]
		gpus[name] = append(gpus[name], f)
	}
	frames := s.Ask(t, nil, w, `{"queryType": "allocation", "view": "stateTimeline", "bucket": "1h"}`)
	require.True(t, hasNotice(frames, fmt.Sprintf("%d GPUs are more than the 500", len(one))))
	var names []string
	partly, unknown := 0, 0
	for _, f := range frames {
		name := f.Fields[1].Config.DisplayNameFromDS
		names = append(names, name)
		for b := w.From / pool.Hour * pool.Hour; b < w.To; b += pool.Hour {
			want, known := sharesOf(gpus[name], max(b, w.From), min(b+pool.Hour, w.To))
			row, found := slices.BinarySearchFunc(slices.Collect(each(f)), b,
				func(at, b pool.Micros) int { return int(at - b) })
			if row--; found {
				row++
			}
			state, there := any(nil), false
			if row >= 0 {
				state, there = f.Fields[1].ConcreteAt(row)
			}
			require.Equal(t, known, there, "%s at %v", name, pool.Time(b))
			if !known {
				unknown++
				continue
			}
			most := 0.0
			for _, field := range f.Fields[2:] {
				share, _ := field.ConcreteAt(row)
				require.InDelta(t, want[stateNumbers[field.Name]], share, 1e-9, "%s %s at %v", name, field.Name, pool.Time(b))
				most = max(most, share.(float64))
			}
			number := state.(int8)
			require.Equal(t, most < 100, number >= 10)
			require.InDelta(t, most, want[float64(number%10)], 1e-9)
			if most < 100 {
				partly++
			}
		}
	}
	require.Greater(t, partly, 100)
	require.Positive(t, unknown)
	require.ElementsMatch(t, slices.Collect(maps.Keys(gpus)), names)
	require.True(t, slices.IsSortedFunc(frames, func(a, b *data.Frame) int {
		x, y := a.Fields[1].Labels, b.Fields[1].Labels
		return cmp.Or(query.CompareValues("device", x["device"], y["device"]), cmp.Compare(x["machine"], y["machine"]))
	}), "devices in a row")
}

var stateNumbers = map[string]float64{"Free": 0, "Claimed": 1, "Backfill": 2, "Drained": 3, "Prevented": 4, "Other": 5}

// each yields the times of a frame.
func each(f *data.Frame) func(func(pool.Micros) bool) {
	return func(yield func(pool.Micros) bool) {
		for i := range f.Fields[0].Len() {
			if !yield(f.Fields[0].At(i).(time.Time).UnixMicro()) {
				return
			}
		}
	}
}

// sharesOf walks from change to change of any of the GPUs, and adds up what each of them is in, in percent by number.
func sharesOf(gpus []*data.Frame, from, to pool.Micros) (map[float64]float64, bool) {
	steps := map[pool.Micros]bool{from: true, to: true}
	for _, f := range gpus {
		for at := range each(f) {
			if from < at && at < to {
				steps[at] = true
			}
		}
	}
	times := slices.Sorted(maps.Keys(steps))
	shares, all := map[float64]float64{}, 0.0
	for i := range len(times) - 1 {
		for _, f := range gpus {
			state := any(nil)
			for k := range f.Fields[0].Len() {
				if f.Fields[0].At(k).(time.Time).UnixMicro() <= times[i] {
					state, _ = f.Fields[1].ConcreteAt(k)
					if f.Fields[1].NilAt(k) {
						state = nil
					}
				}
			}
			if state != nil {
				shares[float64(state.(int8))] += float64(times[i+1] - times[i])
				all += float64(times[i+1] - times[i])
			}
		}
	}
	for state := range shares {
		shares[state] *= 100 / all
	}
	return shares, all > 0
}

// figures are a group's of expected.json: allocated, available, … by metric.
type figures map[string]any

type table map[string]figures // by group

type sides struct {
	Real     table `json:"real"`
	Backfill table `json:"backfill"`
}

type expectedWindow struct {
	Common struct {
		Window     struct{ Start, End string }
		Coverage   float64
		Allocation struct {
			ByCategory       table
			ByCategoryDevice map[string]table
			ByMemory         sides
			ByDevice         sides
			ByOwnership      sides
			ByMachine        sides
			ByProject        sides
			Totals           struct{ Real, Backfill figures }
		}
		UserHours map[string]userTable
	}
}

type userTable struct {
	TotalGPUHours float64 `json:"totalGpuHours"`
	Table         []struct {
		Category       string
		UserCount      float64 `json:"userCount"`
		GPUHours       float64 `json:"gpuHours"`
		PercentOfTotal float64
		Users          []struct {
			User           string
			GPUHours       float64 `json:"gpuHours"`
			PercentOfTotal float64
		}
	}
}

var metrics = []string{"allocatedPercent", "allocated", "available", "free", "unclaimed", "drained", "prevented"}

func eachWindow(t *testing.T, run func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow)) {
	for _, name := range golden.Pools {
		var expected struct {
			Timezone string
			Windows  map[string]*expectedWindow
		}
		golden.Expected(t, name, &expected)
		require.NotEmpty(t, expected.Windows)
		dir := golden.Pool(t, name)
		for window, e := range expected.Windows {
			t.Run(name+"/"+window, func(t *testing.T) {
				run(t, dir, expected.Timezone, golden.Window(t, e.Common.Window.Start, e.Common.Window.End), e)
			})
		}
	}
}

// Every figure of expected.json on allocation.
func TestGoldenAllocation(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow) {
		common := &expected.Common
		s := open(t, dir, zone, 15)
		same(t, byKey(common.Allocation.ByCategory), tableOf(t, s, w, `"totals": false`, "category"))
		devices := table{}
		for category, byDevice := range common.Allocation.ByCategoryDevice {
			for device, f := range byDevice {
				devices[category+"|"+device] = f
			}
		}
		same(t, byKey(devices), tableOf(t, s, w, `"totals": false, "groupBy": ["category", "device"]`, "category", "device"))
		for grouping, want := range map[string]sides{"memory": common.Allocation.ByMemory,
			"device": common.Allocation.ByDevice, "ownership": common.Allocation.ByOwnership,
			"machine": common.Allocation.ByMachine, "project": common.Allocation.ByProject} {
			require.NotEmpty(t, want.Real, grouping)
			joined := table{}
			for g, f := range want.Real {
				joined[g+"|Real"] = f
			}
			for g, f := range want.Backfill {
				joined[g+"|Backfill"] = f
			}
			same(t, joined, tableOf(t, s, w, fmt.Sprintf(`"totals": false, "groupBy": [%q]`, grouping), grouping, "slots"))
		}
		totals(t, s, w, `"groupBy": ["category"]`, common.Allocation.Totals.Real, common.Allocation.Totals.Backfill)
		health := golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "health"}`))
		require.True(t, golden.Same(100*common.Coverage, health[0]["coveragePercent"]), "coverage: %v", health)
	})
}

func TestGoldenUserHours(t *testing.T) {
	eachWindow(t, func(t *testing.T, dir, zone string, w pool.Window, expected *expectedWindow) {
		s := open(t, dir, zone, 15)
		for name, filter := range map[string]string{"backfill": `{"slots": ["Backfill"]}`,
			"h200": `{"devices": ["/\\bH200\\b/"]}`, "all": `{}`} {
			want := expected.Common.UserHours[name]
			require.NotEmpty(t, want.Table)
			rows := golden.Rows(s.Ask(t, nil, w, `{"queryType": "userHours", "filter": `+filter+`}`))
			equal := func(row map[string]any, column string, want any) {
				require.True(t, golden.Same(want, row[column]), "%s: %s: want %v in %v", name, column, want, row)
			}
			for _, g := range want.Table {
				category, ok := pool.ParseCategory(g.Category)
				require.True(t, ok)
				equal(rows[0], "rowType", "group")
				equal(rows[0], "category", category.String())
				equal(rows[0], "userCount", g.UserCount)
				equal(rows[0], "gpuHours", g.GPUHours)
				equal(rows[0], "percentOfTotal", g.PercentOfTotal)
				users := rows[1 : 1+len(g.Users)]
				for _, u := range g.Users { // equal hours may differ in the last bit, and then in order
					i := slices.IndexFunc(users, func(r map[string]any) bool { return r["user"] == u.User })
					require.GreaterOrEqual(t, i, 0, "%s of %s", u.User, category)
					equal(users[i], "rowType", "user")
					equal(users[i], "userCount", nil)
					equal(users[i], "gpuHours", u.GPUHours)
					equal(users[i], "percentOfTotal", u.PercentOfTotal)
				}
				require.True(t, slices.IsSortedFunc(users, func(a, b map[string]any) int {
					return int(b["gpuHours"].(float64)*1e9) - int(a["gpuHours"].(float64)*1e9)
				}))
				rows = rows[1+len(g.Users):]
			}
			require.Len(t, rows, 1)
			equal(rows[0], "rowType", "total")
			equal(rows[0], "category", "All")
			equal(rows[0], "gpuHours", want.TotalGPUHours)
		}
	})
}

// table asks for all metrics; the result is by the groups' texts.
func tableOf(t *testing.T, s runstest.Source, w pool.Window, rest string, groups ...string) table {
	t.Helper()
	got := table{}
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", "limit": 50000, `+rest+`}`)) {
		var key []string
		for _, g := range groups {
			key = append(key, r[g].(string))
		}
		k := strings.Join(key, "|")
		require.NotContains(t, got, k, "a group twice")
		got[k] = r
	}
	return got
}

// byKey turns category keys into names.
func byKey(t table) table {
	named := table{}
	for k, f := range t {
		key, rest, _ := strings.Cut(k, "|")
		c, _ := pool.ParseCategory(key)
		named[strings.TrimSuffix(c.String()+"|"+rest, "|")] = f
	}
	return named
}

// same compares tables; a group without figures may be missing in one of them.
func same(t *testing.T, want, got table) {
	t.Helper()
	require.NotEmpty(t, want)
	for _, groups := range []table{want, got} {
		for g := range groups {
			for _, m := range metrics {
				a, b := want[g][m], got[g][m]
				if want[g] == nil && b == 0.0 || got[g] == nil && a == 0.0 {
					a, b = nil, nil
				}
				require.True(t, golden.Same(a, b), "%s %s: want %v, got %v", g, m, a, b)
			}
		}
	}
}

func totals(t *testing.T, s runstest.Source, w pool.Window, rest string, real, backfill figures) {
	t.Helper()
	got := table{}
	for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "allocation", "view": "summary", `+rest+`}`)) {
		if r["rowType"] == "total" {
			got[r["category"].(string)] = r
		}
	}
	require.Len(t, got, 2)
	same(t, table{"Real Slots (total)": real, "Backfill Slots (total)": backfill}, got)
}
