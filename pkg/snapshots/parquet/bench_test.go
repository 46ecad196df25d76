package parquet

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
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
		for _, field := range Schema {
			_, err := f.Texts(b.Context(), group, f.Column(field.Name), 0, f.Groups[group].Rows)
			require.NoError(b, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(f.Groups[group].Rows), "ns/row")
}
