package query_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

func plan(t require.TestingT, text string, change ...func(*query.Request, *query.Env)) (*query.Plan, error) {
	m, err := query.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	zone, err := localtime.Parse(json.RawMessage(`"America/Chicago"`))
	require.NoError(t, err)
	r, env := query.Request{Model: m, Window: pool.Window{From: 0, To: pool.Day}, IntervalMs: 60_000},
		query.Env{Zone: zone, SliceMinutes: 15}
	for _, c := range change {
		c(&r, &env)
	}
	return kinds.Catalog.Plan(r, env)
}

// A time up to now depends neither on the time range nor on the distance of points that Grafana takes from it.
func TestLast(t *testing.T) {
	now := func(r *query.Request, _ *query.Env) { r.Now, r.IntervalMs = 10*pool.Day, 1 }
	p, err := plan(t, `{"queryType": "allocation", "last": "2d"}`, now)
	require.NoError(t, err)
	require.Equal(t, pool.Window{From: 8 * pool.Day, To: 10 * pool.Day}, p.Window)
	require.Equal(t, "15m", p.Bucket.Name)
	p, err = plan(t, `{"queryType": "utilization", "view": "idle", "last": "6h"}`, now)
	require.NoError(t, err)
	require.Equal(t, pool.Window{From: 10*pool.Day - 6*pool.Hour, To: 10 * pool.Day}, p.Window)
	for _, wrong := range []string{"2", "0d", "2w", "-1d", "99999d", "$last"} {
		_, err := plan(t, `{"queryType": "allocation", "last": "`+wrong+`"}`, now)
		require.ErrorContains(t, err, wrong)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err))
	}
}

// The name of a project on machines chooses the jobs of the projects that it stands for, but no other machines.
func TestOwnersStandForProjectsOfJobs(t *testing.T) {
	names := func(_ *query.Request, env *query.Env) {
		env.Lists.ProjectNames = map[string][]string{"Lab": {"P", "Q"}, "Other": {"Q"}}
	}
	for _, c := range []struct {
		filter, list string
		jobs, places bool
	}{
		{`["Lab"]`, "P", true, false},
		{`["Lab"]`, "Q,R", true, false},
		{`["Lab"]`, "Lab", true, true}, // jobs can have a project of that name, too
		{`["Lab"]`, "R", false, false},
		{`["Lab"]`, "", false, false},
		{`["/^La/"]`, "P", true, false},
		{`["!Lab"]`, "P", false, true},
		{`["!Lab"]`, "R", true, true},
		{`["Other"]`, "P", false, false},
		{`["P"]`, "Lab", false, false},
	} {
		for kind, want := range map[string]bool{"demand": c.jobs, "allocation": c.places} {
			p, err := plan(t, `{"queryType": "`+kind+`", "filter": {"projects": `+c.filter+`}}`, names)
			require.NoError(t, err)
			require.Equal(t, want, p.Select.Match(query.ByProject, c.list), "%s: %s of %q", kind, c.filter, c.list)
		}
	}
}

func TestWrongQueriesSayWhatIsPossible(t *testing.T) {
	for _, c := range []struct {
		query string
		says  []string
	}{
		{`[]`, []string{"cannot be read"}},
		{`{"queryType": 3}`, []string{"cannot be read"}},
		{`{}`, []string{"queryType is required", "allocation, userHours, backfillAvailability, evictions"}},
		{`{"queryType": "alocation"}`, []string{`"alocation"`, "allocation, userHours"}},
		{`{"queryType": "allocation", "view": "pie"}`, []string{`"pie"`,
			"timeseries, summary, current, stateTimeline, changes, machines, health, annotations"}},
		{`{"queryType": "allocation", "metrics": ["allocated", "evictions"]}`,
			[]string{`"evictions"`, "allocatedPercent, allocated, available"}},
		{`{"queryType": "allocation", "metrics": ["free", "free"]}`, []string{"twice"}},
		{`{"queryType": "allocation", "groupBy": ["user"]}`, []string{`"user"`, "category, slots, device"}},
		{`{"queryType": "allocation", "groupBy": ["device", "device"]}`, []string{"twice"}},
		{`{"queryType": "allocation", "view": "current", "groupBy": ["device"]}`, []string{"there is no choice"}},
		{`{"queryType": "evictions", "view": "timeseries", "groupBy": ["evidence"]}`,
			[]string{`"evidence"`, "cause"}},
		{`{"queryType": "allocation", "bucket": "2h"}`, []string{`"2h"`, "auto, window, 5m"}},
		{`{"queryType": "allocation", "view": "summary", "bucket": "2h"}`, []string{`"2h"`}},
		{`{"queryType": "allocation", "bucket": "10m"}`, []string{"slice of 15 minutes", "auto, window, 15m, 30m"}},
		{`{"queryType": "allocation", "timezone": "Mars/Olympus"}`, []string{"Mars/Olympus", "IANA"}},
		{`{"queryType": "allocation", "filter": {"devices": ["/H200(/"]}}`, []string{"filter.devices", "/H200(/", "RE2"}},
		{`{"queryType": "allocation", "filter": {"colours": ["x"]}}`,
			[]string{`"colours"`, "categories, slots, devices, machines, ownerships, projects, users, takenOverBy, memories, " +
				"tiers, schedds, gpus, gpuMemory, reasons, pools, jobProjects, ownGpus, usedMemory, and idle"}},
		{`{"queryType": "allocation", "filter": {"devices": "H200"}}`, []string{"filter", "lists"}},
		{`{"queryType": "allocation", "filter": {"categories": ["Open"]}}`,
			[]string{`"Open"`, "Shared (Open Capacity)"}},
		{`{"queryType": "allocation", "filter": {"slots": ["Primary"]}}`, []string{`"Primary"`, "Real, Backfill"}},
		{`{"queryType": "allocation", "filter": {"ownerships": ["Nobody"]}}`,
			[]string{`"Nobody"`, "Researcher Owned, CHTC Owned, Open Capacity"}},
		{`{"queryType": "allocation", "view": "health", "filter": {"machines": ["m"]}}`,
			[]string{"filter.machines", "valid filters: none"}},
		{`{"queryType": "allocation", "view": "summary", "filter": {"idle": true}}`, []string{"filter.idle", "machines"}},
		{`{"queryType": "allocation", "view": "summary", "filter": {"users": ["ann"]}}`,
			[]string{"filter.users", "requires allocated as the only metric"}},
		{`{"queryType": "allocation", "metrics": ["allocated", "free"], "filter": {"users": ["ann"]}}`,
			[]string{"requires allocated as the only metric"}},
		{`{"queryType": "backfillAvailability", "filter": {"users": ["ann"]}}`, []string{"filter.users"}},
		{`{"queryType": "backfillAvailability", "view": "survival", "duration": "life"}`,
			[]string{`"life"`, "tenure, vacancy"}},
		{`{"queryType": "allocation", "filter": {"devices": ["/(a?){900}/", "/(b?){900}/", "/(c?){900}/"]}}`,
			[]string{"filter.devices", "too costly"}},
		{`{"queryType": "allocation", "filter": {"devices": ["$gpu"]}}`,
			[]string{"$gpu", "alert rules do not support dashboard variables"}},
		{`{"queryType": "allocation", "filter": {"devices": ["/${gpu:regex}/"]}}`, []string{"${gpu:regex}"}},
		{`{"queryType": "allocation", "filter": {"devices": ["[[gpu]]"]}}`, []string{"[[gpu]]"}},
		{`{"queryType": "allocation", "groupBy": ["$g"]}`, []string{"groupBy", "$g"}},
		{`{"queryType": "allocation", "legend": "{{devise}}"}`,
			[]string{"legend", "unknown key {{devise}}", "{{category}}, {{metric}}"}},
		{`{"queryType": "allocation", "legend": "{{device}}"}`,
			[]string{"unless the query is grouped by device", "{{category}}, {{metric}}"}},
		{`{"queryType": "allocation", "groupBy": ["device"], "legend": "{{}}"}`,
			[]string{"unknown key {{}}", "{{device}}, {{slots}}, {{metric}}"}},
		{`{"queryType": "allocation", "view": "stateTimeline", "legend": "{{metric}}"}`,
			[]string{"unknown key {{metric}}", "{{device}}, {{machine}}, {{gpu}}"}},
		{`{"queryType": "evictions", "view": "survival", "legend": "{{user}}"}`, []string{"unknown key {{user}}"}},
		{`{"queryType": "allocation", "legend": "Free on $device"}`, []string{"legend", "$device"}},
		{`{"queryType": "allocation", "legend": "` + strings.Repeat("ü", 201) + `"}`, []string{"got 201", "200"}},
		{`{"queryType": "allocation", "metrics": ["$m"]}`, []string{"metrics", "$m"}},
		{`{"queryType": "allocation", "bucket": "$__interval"}`, []string{"bucket", "$__interval"}},
		{`{"queryType": "allocation", "timezone": "${tz}"}`, []string{"timezone", "${tz}"}},
		{`{"queryType": "allocation", "view": "$view"}`, []string{"view", "$view"}},
		{`{"queryType": "allocation", "limit": -1}`, []string{"limit -1"}},
		{`{"queryType": "allocation", "version": 99}`, []string{"version 99", "update the plugin"}},
	} {
		_, err := plan(t, c.query)
		require.Error(t, err, c.query)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%s: %v", c.query, err)
		for _, s := range c.says {
			require.ErrorContains(t, err, s, c.query)
		}
	}
	_, err := plan(t, `{"queryType": "allocation"}`, func(r *query.Request,
		_ *query.Env) {
		r.Window = pool.Window{From: 2, To: 1}
	})
	require.ErrorContains(t, err, "ends (1970-01-01T00:00:00.000001Z) before it starts (1970-01-01T00:00:00.000002Z)")
}

func TestDefaults(t *testing.T) {
	p, err := plan(t, `{"refId": "A", "datasource": {"uid": "x"}, "hide": false, "queryType": "allocation", "filter": {"devices": ["", " "]}, "key": "Q-1"}`)
	require.NoError(t, err)
	require.Equal(t, []string{"category"}, p.GroupBy)
	require.Equal(t, []string{"allocatedPercent"}, p.Metrics)
	require.True(t, p.Select.Texts(query.ByDevice).All(), "empty texts are dropped")
	require.True(t, p.Select.OldDevices)
	require.Equal(t, "America/Chicago", p.Location.String())
	require.Equal(t, "15m", p.Bucket.Name)

	p, err = plan(t, `{"queryType": "userHours"}`)
	require.NoError(t, err)
	require.Equal(t, "summary", p.View)
	require.Equal(t, []string{"gpuHours", "percentOfTotal"}, p.Metrics)
	require.True(t, p.Totals)

	p, err = plan(t, `{"queryType": "evictions"}`)
	require.NoError(t, err)
	require.Empty(t, p.GroupBy)
	require.Len(t, p.Metrics, 21)

	p, err = plan(t, `{"queryType": "backfillAvailability", "view": "survival"}`)
	require.NoError(t, err)
	require.Equal(t, "tenure", p.Duration)
	require.Equal(t, []string{"survival", "low", "high"}, p.Metrics)

	p, err = plan(t, `{"queryType": "backfillAvailability", "view": "periods"}`)
	require.NoError(t, err)
	require.Equal(t, "vacancy", p.Duration)

	p, err = plan(t, `{"queryType": "allocation", "view": "summary", "groupBy": ["device"]}`)
	require.NoError(t, err)
	require.Equal(t, []string{"device", "slots"}, p.GroupBy, "real and backfill are never added")
	require.Equal(t, 5000, p.Max(5000))

	p, err = plan(t, `{"queryType": "allocation", "view": "summary", "groupBy": [], "limit": 1000000}`)
	require.NoError(t, err)
	require.Equal(t, []string{"slots"}, p.GroupBy)
	require.Equal(t, 50_000, p.Max(5000))
}

// One named metric gives one number per group, for alert rules; explicit totals make it a plain table again.
func TestSingleMetric(t *testing.T) {
	for text, want := range map[string]struct{ numeric, totals bool }{
		`{"queryType": "allocation", "view": "summary"}`: {false,
			true},
		`{"queryType": "allocation", "view": "summary", "totals": false}`: {false,
			false},
		`{"queryType": "allocation", "view": "summary", "metrics": ["free"]}`: {true,
			false},
		`{"queryType": "allocation", "view": "summary", "metrics": ["free"], "totals": true}`: {false,
			true},
		`{"queryType": "allocation", "view": "summary", "metrics": ["free", "drained"]}`: {false,
			true},
		`{"queryType": "backfillAvailability", "view": "transitions"}`: {false,
			false},
		`{"queryType": "backfillAvailability", "view": "transitions", "metrics": ["count"]}`: {true,
			false},
		`{"queryType": "allocation", "view": "health", "metrics": ["gpusLost"], "filter": {}, "groupBy": []}`: {true,
			false},
		`{"queryType": "allocation", "view": "timeseries", "metrics": ["free"], "totals": true, "groupBy": []}`: {false,
			false},
	} {
		p, err := plan(t, text)
		require.NoError(t, err, text)
		require.Equal(t, want, struct{ numeric, totals bool }{p.Numeric, p.Totals}, text)
	}
}

// The period before is as long as the time range and ends right before it; other views leave the option alone.
func TestPrevious(t *testing.T) {
	now, err := plan(t, `{"queryType": "userHours", "view": "summary"}`)
	require.NoError(t, err)
	before, err := plan(t, `{"queryType": "userHours", "view": "summary", "previous": true}`)
	require.NoError(t, err)
	require.Equal(t, now.Window.From-1, before.Window.To)
	require.Equal(t, now.Window.To-now.Window.From, before.Window.To-before.Window.From)
	require.Equal(t, "GPU hours, period before", before.Column("gpuHours").Label)
	require.Equal(t, now.Column("user"), before.Column("user"))
	series, err := plan(t, `{"queryType": "userHours", "view": "timeseries", "previous": true}`)
	require.NoError(t, err)
	require.Equal(t, now.Window, series.Window)
}

func TestAlertRules(t *testing.T) {
	alert := func(r *query.Request, _ *query.Env) { r.FromAlert, r.IntervalMs = true, 1000 }
	for _, k := range kinds.Catalog {
		for _, v := range k.Views {
			text := `{"queryType": "` + k.Name + `", "view": "` + v.Name + `"}`
			p, err := plan(t, text, alert)
			switch v.Alerting {
			case query.AlertSeries:
				require.NoError(t, err, text)
				require.Nil(t, p.Bucket, "auto is the whole window")
			case query.AlertSingleMetric:
				require.ErrorContains(t, err, "exactly one metric", text)
				_, err = plan(t, text[:len(text)-1]+`, "metrics": ["`+v.Metrics[0]+`"]}`, alert)
				require.NoError(t, err)
			default:
				require.ErrorContains(t, err, "allocation/timeseries, allocation/summary with exactly one metric", text)
			}
		}
	}
	p, err := plan(t, `{"queryType": "allocation", "bucket": "1h"}`, alert)
	require.NoError(t, err)
	require.Equal(t, "1h", p.Bucket.Name)
}

func TestAutoBucket(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		slices   int
		want     string
	}{
		{time.Second, 0, "15m"}, {time.Second, 15, "15m"}, {time.Second, 10, "30m"}, {time.Second, 30, "30m"},
		{time.Second, 60, "1h"},
		{15 * time.Minute, 5, "15m"}, {16 * time.Minute, 5, "30m"}, {2 * time.Hour, 15, "3h"}, {5 * time.Hour, 15, "6h"},
		{11 * time.Hour, 15, "12h"},
		{13 * time.Hour, 60, "1d"}, {25 * time.Hour, 60, "1w"}, {1000 * time.Hour, 60, "1w"},
	} {
		p, err := plan(t, `{"queryType": "allocation", "bucket": "auto"}`, func(r *query.Request, e *query.Env) {
			r.IntervalMs, e.SliceMinutes = c.interval.Milliseconds(), c.slices
		})
		require.NoError(t, err)
		require.Equal(t, c.want, p.Bucket.Name, "%+v", c)
	}
}

// query.Buckets follow each other without a gap, begin where the calendar says, and Of finds them.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "America/Chicago", "Asia/Kolkata", "Pacific/Auckland"}).Draw(t, "zone")
		bucket := rapid.SampledFrom(query.BucketNames[2:]).Draw(t, "bucket")
		from := rapid.Int64Range(1_740_000_000, 1_770_000_000).Draw(t, "from") * pool.Second
		length := rapid.Int64Range(0, 20*24*3600).Draw(t, "length") * pool.Second
		p, err := plan(t, `{"queryType": "allocation", "bucket": "`+bucket+`", "timezone": "`+zone+`", "completeBucketsOnly": true}`, func(r *query.Request, e *query.Env) {
			r.Window, e.SliceMinutes = pool.Window{From: from, To: from + length}, 0
		})
		require.NoError(t, err)
		b, err := p.Buckets(from)
		require.NoError(t, err)
		require.LessOrEqual(t, b.Starts[0], from)
		require.Greater(t, b.Starts[1], from)
		require.Greater(t, b.Starts[b.Len()], p.Window.To)
		require.LessOrEqual(t, b.Starts[b.Len()-1], p.Window.To)
		require.True(t, slices.IsSorted(b.Starts))
		for i, start := range b.Starts {
			local := pool.Time(start).In(p.Location)
			require.Zero(t, local.Second())
			switch {
			case bucket == "1w":
				require.Equal(t, time.Monday, local.Weekday())
				fallthrough
			case bucket == "1d":
				require.Zero(t, local.Hour())
				fallthrough
			case p.Bucket.Minutes >= 60:
				require.Zero(t, local.Minute())
				require.Zero(t, local.Hour()*60%min(p.Bucket.Minutes, 1440))
			default:
				require.Zero(t, local.Minute()%p.Bucket.Minutes)
			}
			if i < b.Len() {
				require.Equal(t, i, b.Of(start))
				require.Equal(t, i, b.Of(b.Starts[i+1]-1))
				inside := start >= p.Window.From && b.Starts[i+1] <= p.Window.To
				require.Equal(t, inside, p.Keep(b, i, b.Starts[i+1]))
				require.False(t, p.Keep(b, i, b.Starts[i+1]-1), "no snapshot after its end")
			}
		}
		at := rapid.Int64Range(b.Starts[0]-pool.Day, b.Starts[b.Len()]+pool.Day).Draw(t, "at")
		before := 0 // the buckets that end before it or at it
		for _, end := range b.Starts[1:] {
			if end <= at {
				before++
			}
		}
		require.Equal(t, before, b.Of(at))
	})
	p, err := plan(t, `{"queryType": "allocation", "bucket": "15m"}`,
		func(r *query.Request, _ *query.Env) { r.Window.To = 100 * 365 * pool.Day })
	require.NoError(t, err)
	_, err = p.Buckets(0)
	require.ErrorContains(t, err, "choose a longer one")
}

func TestSelection(t *testing.T) {
	p, err := plan(t, `{"queryType": "userHours", "includeOldDevices": false, "filter": {"categories": ["Shared", "Backfill (CHTC Owned)", "Backfill-OpenCapacity"], "slots": ["Backfill"],
		"devices": ["/\\bH200\\b/", "NVIDIA A40", "NVIDIA L40S", "Unknown"], "projects": ["Physics", "/^Bio/"], "users": ["Unknown", "/@x$/"]}}`)
	require.NoError(t, err)
	s := &p.Select
	require.Equal(t, []string{"Open Capacity", "Backfill (CHTC Owned)", "Backfill (Open Capacity)"}, passing(s,
		query.ByCategory))
	require.Equal(t, []string{"Backfill"}, passing(s, query.BySlots))
	require.Len(t, passing(s, query.ByOwnership), pool.Ownerships)
	for device, want := range map[string]bool{"NVIDIA H200 NVL": true, "NVIDIA H2000": false, "NVIDIA A40": false,
		"NVIDIA L40S": true, "nvidia l40s": false, "": true} {
		require.Equal(t, want, s.Match(query.ByDevice, device), device)
	}
	for list, want := range map[string]bool{"Physics": true, "Chem,Physics": true, "Chem": false, "": false,
		"Biology,Chem": true, "physics": false} {
		require.Equal(t, want, s.Match(query.ByProject, list), list)
	}
	require.Equal(t, []string{"NVIDIA L40S", "Unknown"},
		s.Texts(query.ByDevice).Unmatched([]string{"NVIDIA H200", "NVIDIA A40"}))
	require.Empty(t, s.Texts(query.ByDevice).Unmatched([]string{"NVIDIA L40S", "Unknown", "H200", "NVIDIA A40"}))
}

// passing are the values of a grouping that pass.
func passing(s *query.Selection, g query.Grouping) (values []string) {
	for _, value := range query.Groupings[g].Values {
		if s.Match(g, value) {
			values = append(values, value)
		}
	}
	return values
}

func TestOrder(t *testing.T) {
	for grouping, want := range map[string][]string{
		"category": {"Prioritized (Researcher Owned)", "Prioritized (CHTC Owned)", "Open Capacity",
			"Backfill (Researcher Owned)", "Backfill (CHTC Owned)", "Backfill (Open Capacity)"},
		"slots":       {"Real", "Backfill"},
		"memory":      {"<48GB", "48GB", "80GB", ">80GB", "Unknown", "Other"},
		"ownership":   {"Researcher Owned", "CHTC Owned", "Open Capacity"},
		"machineType": {"Priority", "Shared"},
		"device":      {"", "NVIDIA B", "NVIDIA a", "Z", "Unknown", "Other"},
		"user":        {"Zoe", "ann", "Unknown", "Other"},
	} {
		rapid.Check(t, func(t *rapid.T) {
			got := rapid.Permutation(want).Draw(t, "order")
			slices.SortFunc(got, func(a, b string) int {
				return query.CompareGroups([]string{grouping}, []string{a},
					[]string{b})
			})
			require.Equal(t, want, got)
		})
	}
}

// An executed query can be run again and means the same.
func TestExecutedIsAQuery(t *testing.T) {
	for _, text := range []string{
		`{"queryType": "allocation", "filter": {"devices": ["A"]}, "limit": 3, "includeOldDevices": false}`,
		`{"queryType": "userHours", "groupBy": [], "totals": false}`,
		`{"queryType": "backfillAvailability", "view": "survival", "duration": "vacancy"}`,
		`{"queryType": "backfillAvailability", "view": "transitions"}`,
		`{"queryType": "allocation", "view": "summary", "metrics": ["free"]}`,
	} {
		p, err := plan(t, text)
		require.NoError(t, err)
		var executed struct {
			From, To, Calendar string
			Query              json.RawMessage
		}
		require.NoError(t, json.Unmarshal([]byte(p.Executed()), &executed))
		require.Equal(t, "1970-01-02T00:00:00Z", executed.To)
		require.Equal(t, "America/Chicago", executed.Calendar)
		again, err := plan(t, string(executed.Query))
		require.NoError(t, err)
		require.Equal(t, p.Executed(), again.Executed())
		require.Equal(t, p.Bucket, again.Bucket)
		require.Equal(t, p.GroupBy, again.GroupBy)
		require.Equal(t, p.Totals, again.Totals)
		require.Equal(t, p.Numeric, again.Numeric)
	}
}

// An entry that begins with "!" takes away; without any other entry, from all.
func TestExclusion(t *testing.T) {
	p, err := plan(t, `{"queryType": "userHours", "filter": {
		"devices": ["/H200/", "!/NVL/", "NVIDIA L40S"], "machines": ["!a", "\\!b"], "users": ["!ann", "!/@x$/"],
		"projects": ["!Physics"],
		"categories": ["!Shared"], "slots": ["!Backfill"], "ownerships": ["CHTC Owned", "Open Capacity", "!Open Capacity"]}}`)
	require.NoError(t, err)
	s := &p.Select
	for device, want := range map[string]bool{"NVIDIA H200": true, "NVIDIA H200 NVL": false, "NVIDIA L40S": true,
		"NVIDIA A40": false} {
		require.Equal(t, want, s.Match(query.ByDevice, device), device)
	}
	for machine, want := range map[string]bool{"a": false, "!b": true, "b": false, `\!b`: false} {
		require.Equal(t, want, s.Match(query.ByMachine, machine), machine)
	}
	for user, want := range map[string]bool{"ann": false, "bob@x": false, "bob@y": true, "": true} {
		require.Equal(t, want, s.Match(query.ByUser, user), user)
	}
	for list, want := range map[string]bool{"": true, "Chem": true, "Physics": false, "Chem,Physics": false} {
		require.Equal(t, want, s.Match(query.ByProject, list), list)
	}
	require.Equal(t, slices.Delete(slices.Clone(query.Groupings[query.ByCategory].Values), 2, 3), passing(s,
		query.ByCategory))
	require.Equal(t, []string{"Real"}, passing(s, query.BySlots))
	require.Equal(t, []string{"CHTC Owned"}, passing(s, query.ByOwnership))
	require.Equal(t, []string{"!/NVL/"}, s.Texts(query.ByDevice).Unmatched([]string{"NVIDIA H200", "NVIDIA L40S"}))

	for _, text := range []string{`{"devices": ["!"]}`, `{"devices": ["! "]}`, `{"devices": ["!/(/"]}`,
		`{"categories": ["!Open"]}`, `{"slots": ["!Real slots"]}`} {
		_, err := plan(t, `{"queryType": "userHours", "filter": `+text+`}`)
		require.Error(t, err, text)
		require.Equal(t, pool.FaultQuery, pool.FaultOf(err), text)
	}
}

func TestQuartersOfAFiscalYear(t *testing.T) {
	p, err := plan(t, `{"queryType": "allocation", "bucket": "1Q"}`, func(r *query.Request, e *query.Env) {
		from, to := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
		r.Window, e.YearStart = pool.NewWindow(from, to), 5
	})
	require.NoError(t, err)
	buckets, err := p.Buckets(p.Window.From)
	require.NoError(t, err)
	var starts []string
	for _, start := range buckets.Starts {
		starts = append(starts, pool.Time(start).In(p.Location).Format(time.DateOnly))
	}
	require.Equal(t, []string{"2025-11-01", "2026-02-01", "2026-05-01", "2026-08-01"}, starts,
		"2026-02-01 in UTC is January in Chicago")
}

// The planner takes the meaning and the valid values of options from the view.
func TestOptionsOfViews(t *testing.T) {
	view := query.TableView("", []string{"device"}, []string{"m"}, query.GPUFilters).With("jobHours", "overheadMinutes")
	view.JobHours = []float64{1, 24}
	series := query.SeriesView([]string{"device"}, []string{"m"}, query.GPUFilters)
	series.BucketMinutes = 60
	catalog := query.Catalog{{Name: "k", Views: []query.View{view, series}}}
	ask := func(text string) (*query.Plan, error) {
		m, err := query.Parse([]byte(text))
		require.NoError(t, err)
		return catalog.Plan(query.Request{Model: m, Window: pool.Window{To: pool.Day}, IntervalMs: 1},
			query.Env{Zone: localtime.UTC, SliceMinutes: 15})
	}
	p, err := ask(`{"queryType": "k"}`)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 24}, p.JobHours)
	require.Equal(t, 5.0, p.Overhead)
	p, err = ask(`{"queryType": "k", "jobHours": [0.5], "overheadMinutes": 0}`)
	require.NoError(t, err)
	require.Equal(t, []float64{0.5}, p.JobHours)
	require.Zero(t, p.Overhead)
	p, err = ask(`{"queryType": "k", "view": "timeseries"}`)
	require.NoError(t, err)
	require.Equal(t, "1h", p.Bucket.Name)
	for text, says := range map[string]string{
		`{"queryType": "k", "jobHours": [0]}`:                                "not a job length",
		`{"queryType": "k", "jobHours": [2, 2]}`:                             "twice",
		`{"queryType": "k", "overheadMinutes": -1}`:                          "overheadMinutes",
		`{"queryType": "k", "view": "timeseries", "bucket": "30m"}`:          "too short",
		`{"queryType": "k", "filter": {"schedds": ["ap"]}}`:                  "filter.schedds is not supported here",
		`{"queryType": "k", "view": "timeseries", "filter": {"idle": true}}`: "filter.idle",
	} {
		_, err := ask(text)
		require.ErrorContains(t, err, says, text)
	}
}

// A user without a domain is found by one with it, and by nothing else.
func TestMatchUser(t *testing.T) {
	for users, want := range map[string]bool{`["a@x.org"]`: true, `["a"]`: true, `["/^a/"]`: true, `["aa@x.org"]`: false,
		`["!a@x.org"]`: false, `["!b@x.org"]`: true, `["a.b@x.org"]`: false} {
		p, err := plan(t, `{"queryType": "demand", "filter": {"users": `+users+`}}`)
		require.NoError(t, err)
		require.Equal(t, want, p.Select.Match(query.ByUser, "a"), users)
		require.Equal(t, users == `["/^a/"]` || users == `["!b@x.org"]` || users == `["!a@x.org"]`,
			p.Select.Match(query.ByUser, "a@y.org"), users)
	}
}

// FuzzQuery: any JSON as a query is refused with a fault of the query, or means a plan that can be written as JSON.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `7`, `{"queryType": "allocation"}`,
		`{"refId": "A", "queryType": "allocation", "view": "timeseries", "groupBy": ["category"], "metrics": ["allocatedPercent"], "filter": {"categories": ["Shared"], "devices": ["/H200/"], "idle": false}, "bucket": "auto", "timezone": "America/Chicago", "completeBucketsOnly": true, "totals": false, "limit": 3, "version": 1}`,
		`{"queryType": "userHours", "groupBy": [], "filter": {"users": ["", "x@y", "/^a$/"]}}`,
		`{"queryType": "backfillAvailability", "view": "survival", "duration": "vacancy"}`,
		`{"queryType": "evictions", "view": "summary", "metrics": ["runs"], "filter": {"machines": ["//", "/", "$m", "[[m]]", "/[[:alpha:]]/"]}}`,
		`{"queryType": "allocation", "timezone": "../../etc/passwd"}`, `{"queryType": "allocation", "limit": 1e999}`,
		`{"queryType": "allocation", "filter": {"devices": ["/(a{1000}){1000}/"]}}`,
		`{"queryType": "allocation", "version": 99}`, `{"queryType":"\ud800"}`,
	} {
		f.Add([]byte(seed), int64(0), int64(90_000_000_000), false)
		f.Add([]byte(seed), int64(-1), int64(1)<<62, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, from, to int64, alert bool) {
		model, err := query.Parse(raw)
		if err != nil {
			require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%s", raw)
			return
		}
		plan, err := kinds.Catalog.Plan(query.Request{Model: model, Window: pool.Window{From: from, To: to},
			IntervalMs: 1000, FromAlert: alert}, query.Env{Zone: localtime.UTC, SliceMinutes: 15})
		if err != nil {
			require.Equal(t, pool.FaultQuery, pool.FaultOf(err), "%s", raw)
			return
		}
		require.True(t, json.Valid([]byte(plan.Executed())))
		plan.Select.Match(query.ByDevice, "NVIDIA H200")
		plan.Select.Match(query.ByProject, "Chem,Phys")
		again, err := json.Marshal(model)
		require.NoError(t, err)
		same, err := query.Parse(again)
		require.NoError(t, err, "%s", again)
		once, err := json.Marshal(same)
		require.NoError(t, err)
		require.Equal(t, string(again), string(once))
	})
}
