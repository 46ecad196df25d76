package allocation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/plugintest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// What can alert is acceptable to the alert engine, with data and without.
func TestAnswersAlert(t *testing.T) {
	dir := golden.Pool(t, "pool-b")
	s := open(t, dir, "America/Chicago", 15)
	with := golden.Window(t, "2025-11-01T00:00:00Z", "2025-11-02T12:00:00Z")
	without := golden.Window(t, "2025-11-01T23:00:00Z", "2025-11-02T00:00:00Z") // in the outage
	for _, text := range []string{
		`{"queryType": "allocation"%s}`,
		`{"queryType": "allocation", "metrics": ["free", "allocatedPercent"], "groupBy": ["machine", "project"], "bucket": "6h"%s}`,
		`{"queryType": "allocation", "groupBy": [], "bucket": "window"%s}`,
		`{"queryType": "allocation", "view": "summary", "metrics": ["allocatedPercent"], "groupBy": ["device", "memory"]%s}`,
		`{"queryType": "allocation", "view": "summary", "metrics": ["free"], "groupBy": []%s}`,
		`{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"]%s}`,
		`{"queryType": "userHours", "view": "timeseries", "groupBy": []%s}`,
		`{"queryType": "userHours", "metrics": ["gpuHours"], "groupBy": ["category", "device"]%s}`,
		`{"queryType": "userHours", "metrics": ["percentOfTotal"], "groupBy": []%s}`,
	} {
		for filter, any := range map[string]bool{"": true, `, "filter": {"devices": ["no such"]}`: false} {
			values, err := plugintest.Alertable(s.Ask(t, nil, with, fmt.Sprintf(text, filter)))
			require.NoError(t, err, text)
			require.Equal(t, any, len(values) > 0, "%s %s", text, filter)
		}
		frames := s.Ask(t, nil, without, fmt.Sprintf(text, ""))
		values, err := plugintest.Alertable(frames)
		require.NoError(t, err, text)
		require.Empty(t, values)
		require.Len(t, frames, 1)
		require.True(t, hasNotice(frames, "no snapshot in the time range"))
	}
	values, err := plugintest.Alertable(s.Ask(t, nil, with,
		`{"queryType": "allocation", "view": "health", "metrics": ["snapshotAgeSeconds"]}`))
	require.NoError(t, err)
	require.Len(t, values, 1)
	values, err = plugintest.Alertable(s.Ask(t, nil, with, `{"queryType": "allocation", "view": "health", "metrics": ["linkRate"]}`))
	require.NoError(t, err)
	require.Empty(t, values, "without a job source")
}

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
	rows := golden.Rows(open(t, dir, "UTC", 15).Ask(t, nil, golden.Window(t, "2025-10-01T00:00:00Z", "2025-10-02T00:00:00Z"),
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
