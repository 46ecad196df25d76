package allocation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
	"github.com/chtc/gpureports/pkg/kinds"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
)

// benchmarkDays is how long the pool of the benchmarks lasts.
const benchmarkDays = 31

// benchmarkPool makes a pool of 900 GPUs, or takes the one in the directory GPUREPORTS_BENCH_DIR, and makes it there if
// it is missing.
func benchmarkPool(b *testing.B) (source, pool.Micros) {
	dir := os.Getenv("GPUREPORTS_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	o := samplepool.Default()
	o.Machines, o.GPUs, o.Timezone = 160, 900, "America/Chicago"
	o.Start = time.Date(2025, 5, 31, 0, 0, 0, 0, time.UTC)
	o.End = o.Start.AddDate(0, 0, benchmarkDays)
	if files, err := filepath.Glob(filepath.Join(dir, "gpu_state_*.db")); err != nil || len(files) == 0 {
		p, err := samplepool.New(o)
		require.NoError(b, err)
		require.NoError(b, p.WriteSnapshots(context.Background(), dir))
	}
	return open(b, dir, o.Timezone, 15), o.End.UnixMicro()
}

// A question that is not cached, with only the segments in memory.
func BenchmarkCount(b *testing.B) {
	s, end := benchmarkPool(b)
	for _, days := range []int64{1, 7, 30} {
		w := pool.Window{From: end - days*pool.Day, To: end}
		for name, groupings := range map[string][]string{"category": {"category"}, "machine": {"machine", "slots"},
			"user": {"category", "user"}} {
			b.Run(fmt.Sprintf("%s/%dd", name, days), func(b *testing.B) {
				n := 0
				for b.Loop() {
					n++
					env := s.env
					env.Lists.Excluded = []pool.Exclusion{{Pattern: fmt.Sprintf("nothing%d", n)}} // another question
					p, err := kinds.Catalog.Plan(query.Request{Model: query.Model{QueryType: "allocation", Bucket: "1h"}, Window: w},
						env)
					require.NoError(b, err)
					slices, _, err := counts.Load(b.Context(), s.Timeline, p)
					require.NoError(b, err)
					_, err = counts.New(b.Context(), s.Memo, p, slices, nil, groupings, counts.Claimed, counts.Unclaimed)
					require.NoError(b, err)
				}
			})
		}
	}
}

// Warm answers to repeated questions: computation and frames, over windows of a pool of 900 GPUs.
func BenchmarkAnswers(b *testing.B) {
	s, end := benchmarkPool(b)
	for _, days := range []int64{1, 7, 30} {
		w := pool.Window{From: end - days*pool.Day, To: end}
		for name, text := range map[string]string{
			"allocation/series":          `{"queryType": "allocation", "bucket": "1h"}`,
			"allocation/series-all":      `{"queryType": "allocation", "bucket": "15m", "metrics": ["allocatedPercent", "allocated", "available", "free", "unclaimed", "drained", "prevented"]}`,
			"allocation/summary":         `{"queryType": "allocation", "view": "summary"}`,
			"allocation/summary-machine": `{"queryType": "allocation", "view": "summary", "groupBy": ["machine", "device"]}`,
			"allocation/machines":        `{"queryType": "allocation", "view": "machines"}`,
			"allocation/current":         `{"queryType": "allocation", "view": "current"}`,
			"allocation/stateTimeline":   `{"queryType": "allocation", "view": "stateTimeline"}`,
			"allocation/health":          `{"queryType": "allocation", "view": "health"}`,
			"allocation/annotations":     `{"queryType": "allocation", "view": "annotations"}`,
			"userHours/summary":          `{"queryType": "userHours"}`,
			"userHours/series":           `{"queryType": "userHours", "view": "timeseries", "groupBy": ["user"], "bucket": "1h"}`,
		} {
			b.Run(fmt.Sprintf("%s/%dd", name, days), func(b *testing.B) {
				for b.Loop() {
					s.ask(b, w, text)
				}
			})
		}
	}
}
