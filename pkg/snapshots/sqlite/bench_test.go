package sqlite

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/months"
)

type counter struct{ runs, rows, bytes int }

func (c *counter) Run(int64, months.Local, string) (bool, error) { c.runs++; return true, nil }
func (c *counter) Row(r snapshots.Row, _ float64) error          { c.rows++; c.bytes += len(r); return nil }

// BenchmarkScan reads a day of a month file in the directory named by GPUREPORTS_BENCH_DIR.
func BenchmarkScan(b *testing.B) {
	dir := os.Getenv("GPUREPORTS_BENCH_DIR")
	if dir == "" {
		b.Skip("GPUREPORTS_BENCH_DIR names no directory of month files")
	}
	c := lookAt(b, dir, month)
	rows := c.info.Rows
	first := rows.First + (rows.Last-rows.First)/2
	r := months.Range{First: first, Last: first + 140_000}
	for b.Loop() {
		count := &counter{}
		require.NoError(b, c.Scan(b.Context(), r, count))
		require.Equal(b, 140_001, count.rows)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/140_001, "ns/row")
}
