package backfill_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

const summary = `{"queryType": "backfillAvailability", "totals": false}`

// A period that began more than 7 days before the window is listed and counted, and in no statistics and no curve.
func TestLeftTruncated(t *testing.T) {
	var rows []snapshotstest.Row
	begin := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for i := range 9 * 96 { // used, then available for more than 8 days, then taken
		r := snapshotstest.Row{"Machine": "m1", "AssignedGPUs": "a",
			"timestamp": begin.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000"),
			"Name":      "backfill2@m1", "State": "Unclaimed"}
		if i == 0 {
			r["State"], r["GlobalJobId"] = "Claimed", "ap#1.0#1"
		}
		if i > 9*96-5 {
			r["Name"], r["State"], r["GlobalJobId"] = "slot1_1@m1", "Claimed", "ap#2.0#1"
		}
		rows = append(rows, r)
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	s := runstest.Open(t, dir, "UTC")
	const columns = "%v %v %v left=%v unknown=%v"
	list := func(from, to time.Time) (lines []string, counts string) {
		w := pool.Window{From: from.UnixMicro(), To: to.UnixMicro()}
		for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "periods"}`)) {
			lines = append(lines, fmt.Sprintf(columns, r["start"].(time.Time).Sub(begin), r["end"].(time.Time).Sub(begin),
				r["endReason"], r["leftTruncated"], r["unknownStart"]))
		}
		r := golden.Rows(s.Ask(t, nil, w, summary))[0]
		return lines, fmt.Sprintf("count %v censored %v unknown %v km %v", r["count"], r["censored"], r["unknownStart"],
			r["kmMedianHours"])
	}
	end := begin.Add(9 * 24 * time.Hour)
	lines, counts := list(end.Add(-24*time.Hour), end)
	require.Equal(t, []string{"24h0m0s 215h0m0s reclaimed left=true unknown=false"}, lines,
		"first seen 7 days before the window")
	require.Equal(t, "count 0 censored 0 unknown 0 km <nil>", counts)
	require.Contains(t, golden.Told(s.Ask(t, nil, pool.Window{From: end.Add(-24 * time.Hour).UnixMicro(),
		To: end.UnixMicro()}, summary)), "more than 7 days before the time range")

	lines, counts = list(begin.Add(7*24*time.Hour), end)
	require.Equal(t, []string{"15m0s 215h0m0s reclaimed left=false unknown=false"}, lines)
	require.Equal(t, "count 1 censored 0 unknown 0 km 214.75", counts)
}

// A run counts if its claim ended a period that does not end before the window, or began one whose beginning is seen.
func TestLinksByDefinition(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	ads := runstest.Ads(t, "pool-b", "jobs_epochs.jsonl")
	all := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	random := rand.New(rand.NewPCG(1, 9))
	counts := map[linked.Share]bool{}
	for range 30 {
		length := pool.Hour + random.Int64N(all.To-all.From-pool.Hour)
		from := all.From + random.Int64N(all.To-all.From-length)
		w := pool.Window{From: from, To: from + length}
		now := w.To + random.Int64N(pool.Day) - pool.Hour
		o, err := s.Runs.ObserveWindow(t.Context(), w, s.Env.Lists)
		require.NoError(t, err)
		known, err := o.History(t.Context(), ads)
		require.NoError(t, err)
		got, err := s.Answer(t.Context(), ads, query.Request{Model: query.Model{QueryType: "backfillAvailability"},
			Window: w, Now: now})
		require.NoError(t, err)
		stats := map[string]float64{}
		for _, stat := range got[0].Meta.Stats {
			stats[stat.DisplayName] = stat.Value
		}

		type run struct{ machine, number int }
		counted := map[run]bool{}
		for _, p := range backfill.Bounds(o) {
			if next := int(p.Last) + 1; next < o.End && o.View.Times[next] < w.From {
				continue
			}
			if p.EndRun >= 0 {
				counted[run{p.Machine, int(p.EndRun)}] = true
			}
			if since := o.Since(w); p.StartRun >= 0 && (p.First > since || p.Last < since) {
				counted[run{p.Machine, int(p.StartRun)}] = true
			}
		}
		want := linked.ShareOf(known.Explanations, now, known.Choose(func(machine, number int) bool {
			return counted[run{machine, number}]
		}))
		require.EqualValues(t, want.Counted-want.Linked, stats["Runs without a job ad"], "%v", w)
		if rate, ok := stats["Link rate"]; ok || want.Counted >= linked.Fewest {
			require.InDelta(t, want.Rate(), rate, 1e-9, "%v", w)
		}
		counts[want] = true
	}
	require.Greater(t, len(counts), 20)
}

// The sentences of pool-c say the golden figures, of jobs of each length.
func TestAdviceGolden(t *testing.T) {
	type group struct {
		LongestHours90 *float64
		Rows           []map[string]any
	}
	type expected struct {
		JobLength struct{ ByDevice map[string]group }
	}
	duration := func(hours float64) string {
		if hours*60 < 59.5 {
			return fmt.Sprintf("%v min", math.Round(hours*60))
		}
		return fmt.Sprintf("%v h", math.Round(hours*10)/10)
	}
	sentences := map[float64]int{}
	runstest.EachWindow(t, "pool-c", func(t *testing.T, q *runstest.Question, want *expected) {
		ask := func(options string) []map[string]any {
			return q.Rows(t, `{"queryType": "backfillAvailability", "view": "advice", "groupBy": ["device"]%s}`, options)
		}
		devices := want.JobLength.ByDevice
		rows := ask(`, "jobHours": [1, 2, 4, 6, 8, 12, 24]`)
		require.Len(t, rows, 7*len(devices))
		require.Equal(t, slices.DeleteFunc(slices.Clone(rows), func(r map[string]any) bool { return r["jobHours"] != 12.0 }),
			ask(""), "12 hours without a length")
		for i, row := range rows {
			g := devices[row["device"].(string)]
			figures, hours := g.Rows[i%7], row["jobHours"].(float64)
			require.Equal(t, figures["jobHours"], hours)
			said := row["advice"].(string)
			if row["runs"].(float64) < 5 {
				require.Equal(t, fmt.Sprintf("Too few runs to tell: %v", row["runs"]), said)
				continue
			}
			if g.LongestHours90 == nil {
				require.Regexp(t, "^(At least 90% of jobs up to [0-9.]+ (min|h) finish|Too few runs)", said)
				continue
			}
			expected := "90% of jobs up to " + duration(*g.LongestHours90) + " finish"
			every := figures["bestCheckpointHours"]
			switch {
			case every == nil || *g.LongestHours90 >= hours:
				every = nil
			case every.(float64) < hours:
				expected += "; jobs of " + duration(hours) + " should checkpoint every " + duration(every.(float64))
			default:
				expected += "; checkpoints do not pay for jobs of " + duration(hours)
			}
			if used := figures["usedCheckpointHours"]; used != nil && every != nil {
				expected += " (those that do: every " + duration(used.(float64)) + ")"
			}
			if strings.HasPrefix(said, "Too few runs to tell") { // at the age that 90% reach
				continue
			}
			require.Equal(t, expected, said, row["device"])
			if every != nil {
				sentences[hours]++
			}
		}
	})
	require.Greater(t, sentences[12], 2)
	require.Greater(t, sentences[4], 2)
}

// Of an even number of runs, more than half must fit; runs without a known peak do not count.
func TestMemoryAdvice(t *testing.T) {
	const gib = 1024
	for want, peaks := range map[string][]float64{
		"": {1 * gib, 2 * gib, 3 * gib, 4 * gib}, // too few
		"; most would have fitted 4 GB of GPU memory":  {0, 1, 4 * gib, 70 * gib, 70 * gib},
		"; most would have fitted 8 GB of GPU memory":  {4*gib + 1, 1, 1, 1, 5 * gib, 8 * gib, 8 * gib},
		"; most would have fitted 16 GB of GPU memory": {1, 1, 1, 16 * gib, 17 * gib, 17 * gib},
		"; most would have fitted 80 GB of GPU memory": {80 * gib, 1, 80 * gib, 80 * gib, 1},
	} {
		require.Equal(t, want, backfill.MemoryAdvice(peaks), peaks)
	}
	require.Empty(t, backfill.MemoryAdvice([]float64{90 * gib, 90 * gib, 90 * gib, 90 * gib, 90 * gib}))
}

var lengthMetrics = []string{"finishPercent", "finishLow", "finishHigh", "gpuHoursPerJob", "bestCheckpointHours",
	"gpuHoursWithCheckpoints"}

// Job lengths of pool-c are the golden ones, with and without epoch ads.
func TestJobLengthGolden(t *testing.T) {
	type group struct {
		LongestHours90, LongestHours75, LongestHours50 any
		Rows                                           []map[string]any
	}
	type expected struct {
		JobLength struct {
			All         group
			ByDevice    map[string]group
			ByOwnership map[string]group
		}
	}
	runstest.EachWindow(t, "pool-c", func(t *testing.T, q *runstest.Question, want *expected) {
		ask := func(by string) []map[string]any {
			return q.Rows(t, `{"queryType": "backfillAvailability", "view": "jobLength", "groupBy": [%s], "limit": 50000}`, by)
		}
		check := func(rows []map[string]any, column, value string, g group) {
			found := 0
			for _, row := range rows {
				if column != "" && row[column] != value {
					continue
				}
				expected := g.Rows[found]
				found++
				require.True(t, golden.Same(expected["jobHours"], row["jobHours"]))
				for _, m := range lengthMetrics {
					require.True(t, golden.Same(expected[m], row[m]), "%s, %v h: %s is %v, not %v", value,
						row["jobHours"], m, row[m], expected[m])
				}
				for m, x := range map[string]any{"longestHours90": g.LongestHours90, "longestHours75": g.LongestHours75,
					"longestHours50": g.LongestHours50} {
					require.True(t, golden.Same(x, row[m]), "%s: %s is %v, not %v", value, m, row[m], x)
				}
			}
			require.Len(t, g.Rows, found)
		}
		lengths := want.JobLength
		check(ask(""), "", "", lengths.All)
		byDevice, byOwnership := ask(`"device"`), ask(`"ownership"`)
		for device, g := range lengths.ByDevice {
			check(byDevice, "device", device, g)
		}
		for ownership, g := range lengths.ByOwnership {
			check(byOwnership, "ownership", ownership, g)
		}
	})
}

// Lengths are in order.
func TestJobLengthOptions(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-a"), "UTC")
	w := golden.Window(t, "2025-09-29T12:00:00Z", "2025-10-02T00:00:00Z")
	rows := golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "jobLength", "jobHours": [3, 0.5], "overheadMinutes": 0}`))
	require.Len(t, rows, 2)
	require.Equal(t, 0.5, rows[0]["jobHours"])
}

// A run whose tenure ends with the first moment of the window is one of it; a moment later it is none.
func TestTenureThatEndsWithTheWindowsFirstMoment(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-c"), "America/Chicago")
	w := golden.Window(t, "2025-09-30T12:00:00Z", "2025-10-01T12:00:00Z")
	runsFrom := func(from pool.Micros) float64 {
		rows := golden.Rows(s.Ask(t, nil, pool.Window{From: from, To: w.To},
			`{"queryType": "backfillAvailability", "view": "advice", "groupBy": []}`))
		require.Len(t, rows, 1)
		return rows[0]["runs"].(float64)
	}
	periods := golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`))
	lost := 0
	for _, p := range periods {
		end, is := p["end"].(time.Time)
		if !is || !w.Contains(end.UnixMicro()) || p["censored"] == true {
			continue
		}
		if runsFrom(end.UnixMicro()) > runsFrom(end.UnixMicro()+1) {
			if lost++; lost == 3 {
				return
			}
		}
	}
	t.Errorf("%d of %d ends count to their moment", lost, len(periods))
}

type expectedPeriod struct {
	Machine, GPU, Device, Category, Start, End, EndReason, Job, Link string

	Hours                                 float64
	Censored, LeftTruncated, UnknownStart bool
}

type expectedJobs struct {
	BackfillAvailability struct {
		Summary     map[string]json.RawMessage
		Tenure      struct{ Summary map[string]json.RawMessage }
		Transitions map[string]json.RawMessage
		Periods     json.RawMessage // in full, or a digest
	}
}

var vacancyMetrics = []string{"count", "meanHours", "medianHours", "minHours", "maxHours", "sdHours", "gpuHours",
	"censored", "unknownStart", "kmMedianHours", "restrictedMeanHours", "available", "used", "taken", "usedPercent"}

func TestGolden(t *testing.T) {
	for _, name := range golden.Pools {
		runstest.EachWindow(t, name, func(t *testing.T, q *runstest.Question, want *expectedJobs) {
			e := &want.BackfillAvailability
			vacancies, tenures := runstest.Splits(t, e.Summary), runstest.Splits(t, e.Tenure.Summary)
			for grouping, groups := range vacancies {
				got := q.Summary(t, "backfillAvailability", grouping)
				runstest.CheckGroups(t, grouping, groups, got, vacancyMetrics)
				runstest.CheckGroups(t, grouping, tenures[grouping], got, []string{"hours90", "hours75", "hours50"})
			}
			for grouping, groups := range runstest.Splits(t, e.Transitions) {
				checkTransitions(t, q, grouping, groups)
			}
			checkPeriods(t, q, e.Periods)
			for duration, of := range map[string]runstest.Groups{"vacancy": vacancies[""], "tenure": tenures[""]} {
				curve := of[""]["curve"].(map[string]any)
				rows := q.Rows(t, `{"queryType": "backfillAvailability", "view": "survival", "duration": %q,
					"metrics": ["survival", "low", "high", "atRisk"]}`, duration)
				var at [][]any
				for _, point := range curve["at"].([]any) {
					at = append(at, point.([]any))
				}
				runstest.CheckCurve(t, rows, curve["fromHours"], curve["untilHours"], at)
			}
		})
	}
}

// The row of all GPUs holds the sums of the other rows' numbers of GPUs.
func TestTotals(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	rows := golden.Rows(s.Ask(t, nil, golden.Window(t, "2025-10-31T00:00:00Z", "2025-11-02T12:00:00Z"),
		`{"queryType": "backfillAvailability", "groupBy": ["device"], "metrics": ["available", "used", "taken"]}`))
	for _, metric := range []string{"available", "used", "taken"} {
		sum := 0.0
		for _, row := range rows[:len(rows)-1] {
			sum += row[metric].(float64)
		}
		require.InDelta(t, sum, rows[len(rows)-1][metric], 1e-9, metric)
	}
}

// checkPeriods compares the lines of golden/README.md: machine|gpu|start|end|endReason|category|device, and more where
// the periods are listed in full.
func checkPeriods(t *testing.T, q *runstest.Question, want json.RawMessage) {
	var got, gotMore []string
	for _, r := range q.Rows(t, `{"queryType": "backfillAvailability", "view": "periods", "limit": 50000}`) {
		c, ok := pool.ParseCategory(r["category"].(string))
		require.True(t, ok)
		line := strings.Join([]string{r["machine"].(string), r["gpu"].(string), r["start"].(time.Time).Format(runstest.Stamp),
			r["end"].(time.Time).Format(runstest.Stamp), r["endReason"].(string), c.Key(), r["device"].(string)}, "|")
		got = append(got, line)
		gotMore = append(gotMore, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, r["job"], cmp.Or(r["link"].(string), "none"),
			r["censored"], r["leftTruncated"], r["unknownStart"], r["hours"]))
	}
	if runstest.IsDigest(t, want, got) {
		return
	}
	var periods []expectedPeriod
	require.NoError(t, json.Unmarshal(want, &periods))
	require.NotEmpty(t, periods)
	var wanted []string
	for _, p := range periods {
		line := strings.Join([]string{p.Machine, p.GPU, p.Start, p.End, p.EndReason, p.Category, p.Device}, "|")
		wanted = append(wanted, fmt.Sprintf("%s|%v|%v|%v|%v|%v|%.9g", line, p.Job, cmp.Or(p.Link, "none"),
			p.Censored, p.LeftTruncated, p.UnknownStart, p.Hours))
	}
	slices.Sort(wanted)
	slices.Sort(gotMore)
	require.Equal(t, wanted, gotMore)
}

func checkTransitions(t *testing.T, q *runstest.Question, grouping string, groups runstest.Groups) {
	by, got, want := `[]`, map[string]any{}, map[string]any{}
	if grouping != "" {
		by = fmt.Sprintf("[%q]", grouping)
	}
	for _, r := range q.Rows(t, `{"queryType": "backfillAvailability", "view": "transitions", "groupBy": %s}`, by) {
		group, _ := r[grouping].(string)
		got[fmt.Sprintf("%s|%s→%s", group, r["from"], r["to"])] = r["count"]
	}
	for group, counts := range groups {
		for change, n := range counts {
			want[group+"|"+change] = n
		}
	}
	require.NotEmpty(t, want)
	require.Equal(t, want, got)
}
