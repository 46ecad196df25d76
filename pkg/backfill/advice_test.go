package backfill_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

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
