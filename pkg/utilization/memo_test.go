package utilization_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// Answers with remembered runs equal those without, after any other queries, and also when the files are edited.
func TestRememberedRuns(t *testing.T) {
	dir := golden.Pool(t, poolC)
	s := runstest.Open(t, dir, zoneC)
	whole := golden.Window(t, "2025-09-29T00:00:00Z", "2025-10-03T00:00:00Z")
	random := rand.New(rand.NewPCG(16, 18))
	queries := []string{
		summary,
		`{"queryType": "utilization", "view": "summary", "groupBy": ["user", "device"]}`,
		`{"queryType": "utilization", "view": "runs", "limit": 50000}`,
		`{"queryType": "utilization", "view": "idle"}`,
		`{"queryType": "utilization", "view": "hourOfWeek"}`,
		`{"queryType": "utilization", "bucket": "1h", "metrics": ["busy", "idle"], "groupBy": ["category"]}`,
		`{"queryType": "utilization", "bucket": "1h", "timezone": "Asia/Kolkata", "metrics": ["busy", "idle"]}`,
		`{"queryType": "utilization", "bucket": "1d", "metrics": ["utilizationPercent"], "filter": {"slots": ["Backfill"]}}`,
		`{"queryType": "utilization", "bucket": "window", "metrics": ["busy"]}`,
	}
	recalled := uint64(0)
	compare := func(round int) {
		from := whole.From + random.Int64N(whole.To-whole.From)
		w := pool.Window{From: from, To: from + random.Int64N(whole.To-from)}
		if round%3 == 0 {
			w = whole
		}
		for _, q := range queries {
			kept := s.Ask(t, nil, w, q)
			recalled += s.Memo.WeightedSize()
			fresh := runstest.Open(t, dir, zoneC)
			want := fresh.Ask(t, nil, w, q)
			require.Len(t, kept, len(want), q)
			for i := range want {
				require.Equal(t, golden.Rows(want[i:i+1]), golden.Rows(kept[i:i+1]), "%s in %v", q, w)
			}
			require.NoError(t, fresh.Close())
		}
	}
	for round := range 8 {
		compare(round)
	}
	require.Positive(t, recalled)
	change(t, dir, fmt.Sprintf("UPDATE gpu_state SET GPUsAverageUsage = %v WHERE timestamp LIKE '2025-09-30%%' AND "+
		"GPUsAverageUsage IS NOT NULL", 0.25))
	for round := range 4 {
		compare(round)
	}
}
