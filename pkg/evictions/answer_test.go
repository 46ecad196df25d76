package evictions_test

import (
	"slices"
	"strings"
	"testing"

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
