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
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

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
