package dashboards

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/fleet/publish"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/plugin"
)

// steadyPool is a pool in which nothing changes for two days, and its newest snapshot: a job computes on one GPU and
// holds another one idle, a backfill job holds a third, a fourth is free, and one job waits for two GPUs.
func steadyPool(t *testing.T) (dir string, newest time.Time) {
	t.Helper()
	first := time.Date(2025, 11, 10, 0, 7, 30, 0, time.UTC)
	newest = first.Add(48 * time.Hour)
	c := golden.Case{Defaults: map[string]any{"Machine": "m1", "GPUs_DeviceName": "NVIDIA A100",
		"GPUs_GlobalMemoryMb": 81920, "PrioritizedProjects": "chem"}}
	row := func(at time.Time, slot, gpu, state, user string, usage any) {
		r := map[string]any{"Name": slot + "@m1", "AssignedGPUs": gpu, "State": state, "GPUsAverageUsage": usage,
			"timestamp": at.Format("2006-01-02 15:04:05.000000")}
		if user != "" {
			r["RemoteOwner"], r["GlobalJobId"] = user, fmt.Sprintf("ap1#%d.0#%d", len(slot), first.Unix()-60)
		}
		c.Rows = append(c.Rows, r)
	}
	for at := first; !at.After(newest); at = at.Add(15 * time.Minute) {
		row(at, "slot1_1", "GPU-a1", "Claimed", "alice", 1.0)
		row(at, "slot1_12", "GPU-a2", "Claimed", "bob", 0.0)
		row(at, "slot1", "GPU-a3", "Unclaimed", "", nil)
		row(at, "slot1", "GPU-a4", "Unclaimed", "", nil)
		row(at, "backfill2_123", "GPU-a3", "Claimed", "carol", 1.0)
		for _, gpu := range []string{"GPU-a1", "GPU-a2", "GPU-a4"} {
			row(at, "backfill2", gpu, "Unclaimed", "", nil)
		}
	}
	c.Pressure = []map[string]any{{"GlobalJobId": "ap1#9.0#1", "ScheddName": "ap1", "Owner": "dave", "RequestGPUs": 2.0,
		"QDate": first.Unix(), "first_seen": float64(first.Unix()), "last_seen": newest.Unix()}}
	return c.Write(t), newest
}

// In a pool in which nothing changes every series is flat, its first and last bucket included, wherever the time range
// begins and ends, because averages are divided by the time that the data cover. Usage is not known in the rest of the
// newest slice, so its panels draw complete buckets only.
func TestSteadyPoolIsFlat(t *testing.T) {
	dir, newest := steadyPool(t)
	for _, late := range []time.Duration{-7 * time.Hour, -time.Minute, 0, 30 * time.Second, 10 * time.Minute,
		50 * time.Minute} {
		now := newest.Add(late)
		d := openSource(t, dir, now)
		for _, from := range []time.Time{now.Add(-30*time.Hour + 11*time.Minute), newest.Add(-72 * time.Hour)} {
			for _, c := range []struct {
				kind, metric, filter string
				want                 float64
			}{
				{"allocation", "allocated", `{"slots": ["Real"]}`, 2},
				{"allocation", "free", `{"slots": ["Real"]}`, 1},
				{"allocation", "allocatedPercent", `{"slots": ["Real"]}`, 50},
				{"backfillAvailability", "used", `{}`, 1},
				{"backfillAvailability", "available", `{}`, 1},
				{"backfillAvailability", "taken", `{}`, 2},
				{"utilization", "busy", `{}`, 2},
				{"utilization", "idle", `{}`, 1},
				{"demand", "waitingGpus", `{}`, 2},
				{"demand", "waitingUsers", `{}`, 1},
			} {
				where := fmt.Sprint(c.kind, " ", c.metric, " from ", from, ", ", late, " after the newest snapshot")
				text := fmt.Sprintf(`{"queryType": %q, "view": "timeseries", "groupBy": [], "metrics": [%q], "bucket": "1h",
					"filter": %s, "completeBucketsOnly": %t}`, c.kind, c.metric, c.filter, c.kind == "utilization")
				response := answer(t, d, json.RawMessage(text), from, now, false)
				require.NoError(t, response.Error, where)
				points := golden.Series(response.Frames)[""]
				if c.kind == "utilization" && points[0].Time.Before(newest.Add(-48*time.Hour)) {
					points = points[1:] // the slice of the first snapshot counts from its beginning, when no usage is known
				}
				require.GreaterOrEqual(t, len(points), 21, where)
				for _, p := range points {
					require.InDelta(t, c.want, p.Value, 1e-6, "%s: %v", where, p.Time)
				}
			}
			if late < 0 {
				continue // a bucket that is covered but has no slice has no point
			}
			hours := 0.0
			for _, p := range golden.Series(answer(t, d, json.RawMessage(`{"queryType": "userHours", "view": "timeseries",
				"groupBy": [], "bucket": "1h"}`), from, now, false).Frames)[""] {
				require.LessOrEqual(t, p.Value, 3.0, "three held GPUs for an hour")
				hours += p.Value
			}
			total := golden.Rows(answer(t, d, json.RawMessage(`{"queryType": "userHours", "view": "summary", "groupBy": []}`),
				from, now, false).Frames)
			require.InDelta(t, total[len(total)-1]["gpuHours"], hours, 1e-6)
		}
	}
}

// What the dashboard of many pools and its alert rule ask is answered from facts that two pools have published.
func TestFleetIsAnswered(t *testing.T) {
	url := jobstest.Elasticsearch(t)
	alias := fmt.Sprintf("facts-dashboard-%d", time.Now().UnixNano()) // the server may be one that others use
	dir, end := samplePool(t)
	open := func(now time.Time, jsonData map[string]any) *plugin.Datasource {
		text, err := json.Marshal(jsonData)
		require.NoError(t, err)
		d := plugin.Open(backend.DataSourceInstanceSettings{UID: FleetSourceUID, Type: pluginID, URL: url, JSONData: text},
			func() time.Time { return now })
		t.Cleanup(d.Dispose)
		return d
	}
	for _, name := range []string{"pool a", "pool b"} {
		source := open(end, map[string]any{"snapshotDir": dir, "jobs": "sqlite", "factsIndex": alias})
		require.NoError(t, plugin.Publish(t.Context(), source,
			publish.Options{Pool: name, Since: end.AddDate(0, 0, -7)}, func(publish.Part) {}))
	}
	source := open(end, map[string]any{"mode": "fleet", "factsIndex": alias})
	from := end.AddDate(0, 0, -7)
	seen := names{}
	for _, d := range Fleet() {
		for _, v := range d.Variables {
			require.NotEmpty(t, offered(t, source, v, from, end), v.Name)
		}
		for _, p := range d.allPanels() {
			response := answer(t, source, withValues(t, p.Query, nil), from, end, false)
			require.NoError(t, response.Error, p.Title)
			require.NotEmpty(t, response.Frames[0].Fields, p.Title)
			require.NoError(t, fits(p, p.Query, response.Frames, false), p.Title)
			seen.add(response.Frames)
		}
	}
	seen.requireOverrides(t, Fleet())
	for later, want := range map[time.Duration]bool{time.Hour: false, 6 * time.Hour: true} {
		for _, r := range FleetRules() {
			now := end.Add(later)
			values := results(t, open(now, map[string]any{"mode": "fleet", "factsIndex": alias}), r, now)
			fires := firing(t, r.Condition, values)
			require.Len(t, fires, 2, "each pool")
			for pool, fired := range fires {
				require.Equal(t, want, fired, "%s, %s later", pool, later)
			}
		}
	}
}
