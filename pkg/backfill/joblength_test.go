package backfill_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

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
