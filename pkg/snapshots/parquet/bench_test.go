package parquet

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// BenchmarkColumns reads the columns of the middle row groups of the month file named by GPUREPORTS_PARQUET.
func BenchmarkColumns(b *testing.B) {
	name := os.Getenv("GPUREPORTS_PARQUET")
	if name == "" {
		b.Skip("GPUREPORTS_PARQUET names no month file")
	}
	f, err := OpenFile(name)
	require.NoError(b, err)
	defer f.Close()
	group := len(f.Groups) / 2
	b.ResetTimer()
	for b.Loop() {
		_, err := f.columns(b.Context(), group, 0, f.Groups[group].Rows, snapshots.ColumnNames[:])
		require.NoError(b, err)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(f.Groups[group].Rows), "ns/row")
}
