package timeline

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// BenchmarkLoad loads days out of the directory named by GPUREPORTS_BENCH_DIR, with nothing cached.
func BenchmarkLoad(b *testing.B) {
	dir := os.Getenv("GPUREPORTS_BENCH_DIR")
	if dir == "" {
		b.Skip("GPUREPORTS_BENCH_DIR names no directory of month files")
	}
	for name, days := range map[string]int{"1 day": 1, "30 days": 30} {
		b.Run(name, func(b *testing.B) {
			var bytes, gpuDays, spans int
			for b.Loop() {
				tl := open(b, dir, "UTC", "")
				to := time.Date(2025, 9, 29, 12, 0, 0, 0, time.UTC).UnixMicro()
				v, err := tl.Load(b.Context(), to-pool.Micros(days)*pool.Day+pool.Day/4, to)
				require.NoError(b, err)
				bytes, gpuDays, spans = 0, 0, 0
				for _, d := range v.Days {
					bytes, gpuDays, spans = bytes+d.Bytes(), gpuDays+d.GPUs(), spans+len(d.first)
				}
				require.NoError(b, tl.Close())
			}
			b.ReportMetric(float64(bytes)/float64(gpuDays), "B/GPU-day")
			b.ReportMetric(float64(spans)/float64(gpuDays), "spans/GPU-day")
		})
	}
}
