package backfill_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

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
