package evictions_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

const zoneB = "America/Chicago"

func windowB(t *testing.T) pool.Window {
	return golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
}

const summary = `{"queryType": "evictions", "totals": false}`

// With ads of less than half of the runs completions cannot be seen.
func TestLinkRate(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), zoneB)
	lines := strings.Split(strings.TrimSpace(string(golden.Read(t, "pool-b", "jobs_epochs.jsonl"))), "\n")
	few := jobstest.NewMemory()
	for _, l := range lines[:len(lines)/4] {
		few.Add([]byte(l))
	}
	frames := s.Ask(t, few, windowB(t), summary)
	require.Contains(t, golden.Warned(frames), "runs that ended more than 30 min ago are linked")
	row := golden.Rows(frames)[0]
	require.Nil(t, row["evictedPercent"])
	require.Nil(t, row["medianHoursToEviction"])
	require.NotNil(t, row["ratePer100GpuHours"])
	require.Positive(t, row["completed"], "what the ads say still counts")
	require.Empty(t, golden.Rows(s.Ask(t, few, windowB(t), `{"queryType": "evictions", "view": "survival"}`)))

	// fewer than 20 runs: no obstacle, the notice gives the counts
	short := golden.Window(t, "2025-11-01T12:00:00Z", "2025-11-01T15:00:00Z")
	frames = s.Ask(t, few, short, summary)
	require.Contains(t, golden.Told(frames), "runs that ended more than 30 min ago are linked")
	require.NotNil(t, golden.Rows(frames)[0]["evictedPercent"])
}

// Asked in one call: each job once, and only jobs of runs that can overlap the window or show the clocks on its
// days.
func TestAsksOnce(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), zoneB)
	source := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl").(*jobstest.Memory)
	s.Ask(t, source, golden.Window(t, "2025-11-01T12:00:00Z", "2025-11-01T15:00:00Z"), summary)
	jobsOf := func(asked []string) []string {
		// the others are machines
		return slices.DeleteFunc(asked, func(name string) bool { return !strings.Contains(name, "#") })
	}
	few := jobsOf(source.Asked())
	require.NotEmpty(t, few)
	s.Ask(t, source, windowB(t), summary)
	all := jobsOf(source.Asked())
	require.GreaterOrEqual(t, len(all), len(few))
	slices.Sort(all)
	require.Len(t, slices.Compact(slices.Clone(all)), len(all))
}

// A limit leaves the first rows.
func TestLimits(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), zoneB)
	source := runstest.Sources(t, "pool-b", "both")[0]
	for _, view := range []string{"jobs", "runs", "events"} {
		ask := func(limit string) []map[string]any {
			return golden.Rows(s.Ask(t, source, windowB(t), `{"queryType": "evictions", "view": "`+view+`", "limit": `+limit+`}`))
		}
		all := ask("50000")
		require.Greater(t, len(all), 3)
		require.Equal(t, all[:3], ask("3"), view)
	}
}

// claims is a pool of one GPU whose backfill slot a job holds at some of the times of a day.
func claims(times []string, held ...int) *golden.Case {
	c := &golden.Case{}
	for i, at := range times {
		row := func(name, state string) map[string]any {
			return map[string]any{"Name": name, "AssignedGPUs": "GPU-a", "State": state, "Machine": "m1",
				"timestamp": "2026-03-02 " + at + ":00.000000"}
		}
		backfill := row("backfill2_1@m1", "Unclaimed")
		for _, n := range held {
			if n == i {
				backfill = row("backfill2_1@m1", "Claimed")
				backfill["RemoteOwner"], backfill["GlobalJobId"] = "bob", "ap1#1.0#1772400000"
			}
		}
		c.Rows = append(c.Rows, row("slot1@m1", "Unclaimed"), backfill)
	}
	return c
}

// A run that ends with the first moment of a bucket counts in it, as its end does.
func TestRunThatEndsWithABucketsFirstMoment(t *testing.T) {
	var times []string
	for h := range 6 {
		times = append(times, fmt.Sprintf("%02d:00", h), fmt.Sprintf("%02d:30", h))
	}
	s := runstest.Open(t, claims(times, 2, 3).Write(t), "UTC") // 01:00 to 02:00
	rows := golden.Rows(s.Ask(t, nil, golden.Window(t, "2026-03-02T00:00:00Z", "2026-03-02T05:00:00Z"),
		`{"queryType": "evictions", "view": "timeseries", "bucket": "1h", "metrics": ["runs"]}`))
	var got []any
	for _, row := range rows {
		for name, value := range row {
			if name != "time" {
				got = append(got, value)
			}
		}
	}
	require.Equal(t, []any{0.0, 1.0, 1.0, 0.0, 0.0}, got[:5], rows)
}

// Runs that ended before their start by the ads are counted in a notice.
func TestClampedRunsAreCounted(t *testing.T) {
	c := claims([]string{"12:00", "12:15", "12:30", "12:45", "13:00", "13:15"}, 2)
	const start, end = 1772453520.0, 1772454510.0 // 12:12 and 12:28:30
	c.Ads = []golden.Ad{{Kind: "history", Ad: map[string]any{"GlobalJobId": "ap1#1.0#1772400000", "RecordTime": end,
		"JobStatus": 4.0, "CompletionDate": end, "JobCurrentStartDate": start, "StartdSlot": "backfill2_1",
		"StartdName": "m1"}}}
	s := runstest.Open(t, c.Write(t), "UTC")
	frames := s.Ask(t, runstest.AdsOf(t, c, &golden.CaseQuery{Jobs: "ads"}),
		golden.Window(t, "2026-03-02T12:00:00Z", "2026-03-02T13:15:00Z"), summary)
	require.Contains(t, golden.Told(frames),
		"1 run ended before the start by the job ads: the end is set to the start")
	frames = s.Ask(t, nil, golden.Window(t, "2026-03-02T12:00:00Z", "2026-03-02T13:15:00Z"), summary)
	require.NotContains(t, golden.Told(frames), "before the start")
}

// Rates that rest on too few GPU-hours are counted: in tables, series and heat maps.
func TestRatesLeftOut(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "UTC")
	source := runstest.Sources(t, "pool-b", "both")[0]
	w := golden.Window(t, "2025-11-01T12:00:00Z", "2025-11-01T13:59:59.999999Z")
	told := func(query string) string {
		return golden.Told(s.Ask(t, source, w, `{"queryType": "evictions", `+query+`}`))
	}
	few, all, machine := 0, 0, ""
	for _, row := range golden.Rows(s.Ask(t, source, w, `{"queryType": "evictions", "groupBy": ["machine"], "totals": false}`)) {
		if all++; row["gpuHours"].(float64) < 1-1e-9 {
			few++
			machine = row["machine"].(string)
			require.Nil(t, row["ratePer100GpuHours"])
		}
	}
	require.Positive(t, few)
	counted := fmt.Sprintf("%d of %d eviction rates rest on less than 1 GPU hour and have no value", few, all)
	require.Contains(t, told(`"groupBy": ["machine"]`), counted)
	require.Contains(t, told(`"groupBy": ["machine"], "metrics": ["rateHigh", "runs"]`), counted)
	for query, has := range map[string]bool{
		`"view": "timeseries", "groupBy": ["machine"], "bucket": "1h", "metrics": ["ratePer100GpuHours", "runs"]`: true,
		`"view": "hourOfWeek", "metrics": ["ratePer100GpuHours"], "filter": {"machines": ["` + machine + `"]}`:    true,
		`"groupBy": []`: false,
		`"groupBy": ["machine"], "metrics": ["runs"]`:                                            false,
		`"view": "timeseries", "groupBy": ["machine"], "bucket": "1h", "metrics": ["evictions"]`: false,
		`"view": "hourOfWeek", "metrics": ["evictions"]`:                                         false,
	} {
		require.Equal(t, has, strings.Contains(told(query), "eviction rates rest on less than"), query)
	}
}

type expectedRun struct {
	Machine, Device, Category, User, Job, Start, End, Outcome, Evidence, Cause, Link string

	GPUIDs []string `json:"gpuIds"`
	Hours  float64
}

type expectedJobs struct {
	Evictions map[string]json.RawMessage // splits, and runs in full or as a digest
}

var metrics = []string{"runs", "evictions", "yielded", "evictedGpuHours", "checkpointedPercent", "maxEvictionsPerJob",
	"completed", "removed", "held", "running", "lost", "ambiguous", "gpuHours",
	"ratePer100GpuHours", "rateLow", "rateHigh", "evictedPercent", "medianHoursToEviction", "lostGpuHours", "lostPercent"}

var causeMetrics = []string{"evictions", "ratePer100GpuHours", "lostGpuHours", "evictedGpuHours", "checkpointedPercent",
	"medianHoursToEviction"}

func TestGolden(t *testing.T) {
	for _, name := range golden.Pools {
		runstest.EachWindow(t, name, func(t *testing.T, q *runstest.Question, want *expectedJobs) {
			splits := runstest.Splits(t, want.Evictions)
			for grouping, groups := range splits {
				runstest.CheckGroups(t, grouping, groups, q.Summary(t, "evictions", grouping), metrics)
				for key, further := range map[string]string{"byCause": "cause", "byEvidence": "evidence",
					"byTakenOverBy": "takenOverBy"} {
					parts := runstest.Groups{}
					for group, figures := range groups {
						of, _ := figures[key].(map[string]any)
						for part, m := range of {
							parts[strings.TrimPrefix(group+"|"+part, "|")] = m.(map[string]any)
						}
					}
					runstest.CheckGroups(t, further, parts, q.Summary(t, "evictions", grouping, further), causeMetrics)
				}
			}
			checkRuns(t, q, want.Evictions["runs"])
			checkIncidence(t, q, splits[""][""]["cumulativeIncidence"])
		})
	}
}

// checkRuns compares the lines of golden/README.md: machine|gpuIds|job|start|end|outcome|evidence, and more where the
// runs are listed in full.
func checkRuns(t *testing.T, q *runstest.Question, want json.RawMessage) {
	var got, gotMore []string
	for _, r := range q.Rows(t, `{"queryType": "evictions", "view": "runs", "limit": 50000}`) {
		ids := strings.Split(r["gpuIds"].(string), ", ")
		require.Len(t, ids, int(r["gpus"].(float64)))
		slices.Sort(ids)
		line := strings.Join([]string{r["machine"].(string), strings.Join(ids, ","), r["job"].(string),
			r["start"].(time.Time).Format(runstest.Stamp), r["end"].(time.Time).Format(runstest.Stamp), r["outcome"].(string),
			r["evidence"].(string)}, "|")
		got = append(got, line)
		gotMore = append(gotMore, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, r["device"], r["category"], r["user"],
			r["cause"], r["link"], r["hours"]))
	}
	if runstest.IsDigest(t, want, got) {
		return
	}
	var runs []expectedRun
	require.NoError(t, json.Unmarshal(want, &runs))
	require.NotEmpty(t, runs)
	var wanted []string
	for _, r := range runs {
		slices.Sort(r.GPUIDs)
		line := strings.Join([]string{r.Machine, strings.Join(r.GPUIDs, ","), r.Job, r.Start, r.End, r.Outcome, r.Evidence},
			"|")
		wanted = append(wanted, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, r.Device, runstest.Named(r.Category), r.User,
			r.Cause, r.Link, r.Hours))
	}
	slices.Sort(wanted)
	slices.Sort(gotMore)
	require.Equal(t, wanted, gotMore)
}

// checkIncidence compares the share evicted where the curve is drawn from the beginning.
func checkIncidence(t *testing.T, q *runstest.Question, want any) {
	rows := q.Rows(t, `{"queryType": "evictions", "view": "survival", "groupBy": []}`)
	if want == nil {
		require.Empty(t, rows)
		return
	}
	require.Zero(t, rows[0]["hours"])
	compared := 0
	for _, point := range want.([]any) {
		of := point.(map[string]any)
		hours := of["hours"].(float64)
		if hours > rows[len(rows)-1]["hours"].(float64) {
			continue
		}
		compared++
		row := rows[0]
		for _, r := range rows {
			if r["hours"].(float64) <= hours {
				row = r
			}
		}
		require.InDelta(t, 1-of["evicted"].(float64), row["survival"], 1e-9)
		require.Less(t, row["low"].(float64), row["survival"])
		require.Greater(t, row["high"].(float64), row["survival"])
	}
	require.GreaterOrEqual(t, compared, 2)
}
