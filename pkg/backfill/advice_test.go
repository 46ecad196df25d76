package backfill_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/backfill"
	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

// The sentences of pool-c say the golden figures.
func TestAdviceGolden(t *testing.T) {
	type group struct {
		LongestHours90 *float64
		Rows           []map[string]any
	}
	var want struct {
		Timezone string
		Windows  map[string]struct {
			Common struct{ Window struct{ Start, End string } }
			Jobs   map[string]struct {
				JobLength struct{ ByDevice map[string]group }
			}
		}
	}
	const pool = "pool-c"
	golden.Expected(t, pool, &want)
	s := open(t, golden.Pool(t, pool), want.Timezone)
	duration := func(hours float64) string {
		if hours*60 < 59.5 {
			return fmt.Sprintf("%v min", math.Round(hours*60))
		}
		return fmt.Sprintf("%v h", math.Round(hours*10)/10)
	}
	sentences := 0
	for window, w := range want.Windows {
		rows := golden.Rows(s.Ask(t, runstest.Ads(t, pool, "jobs_epochs.jsonl"),
			golden.Window(t, w.Common.Window.Start, w.Common.Window.End),
			`{"queryType": "backfillAvailability", "view": "advice", "groupBy": ["device"]}`))
		require.Len(t, rows, len(w.Jobs["epochs"].JobLength.ByDevice))
		for _, row := range rows {
			g := w.Jobs["epochs"].JobLength.ByDevice[row["device"].(string)]
			said := row["advice"].(string)
			if row["runs"].(float64) < 5 {
				require.Equal(t, fmt.Sprintf("Too few runs to tell: %v", row["runs"]), said)
				continue
			}
			if g.LongestHours90 == nil || *g.LongestHours90 >= 12 {
				require.Regexp(t, "^(At least 90% of jobs up to [0-9.]+ (min|h) finish|Too few runs)", said, window)
				continue
			}
			expected := "90% of jobs up to " + duration(*g.LongestHours90) + " finish"
			switch every := g.Rows[5]["bestCheckpointHours"]; {
			case every == nil:
			case every.(float64) < 12:
				expected += "; longer ones should checkpoint every " + duration(every.(float64))
			default:
				expected += "; checkpoints do not pay for jobs of 12 h"
			}
			if used := g.Rows[5]["usedCheckpointHours"]; used != nil && g.Rows[5]["bestCheckpointHours"] != nil {
				expected += " (those that do: every " + duration(used.(float64)) + ")"
			}
			sentences++
			require.Equal(t, expected, said, "%s, %v", window, row["device"])
			require.Equal(t, 12.0, g.Rows[5]["jobHours"])
		}
	}
	require.Greater(t, sentences, 2)
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
