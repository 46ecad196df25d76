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
	handle, err := os.Open(name)
	require.NoError(b, err)
	defer handle.Close()
	info, err := handle.Stat()
	require.NoError(b, err)
	f, err := Open(handle, info.Size())
	require.NoError(b, err)
	r, err := f.NewReader(handle)
	require.NoError(b, err)
	defer r.Close()
	group := len(f.Groups) / 2
	texts := make([]Texts, len(Schema))
	b.ResetTimer()
	for b.Loop() {
		for i, field := range Schema {
			require.NoError(b, r.Texts(b.Context(), group, f.Column(field.Name), 0, f.Groups[group].Rows, &texts[i]))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(f.Groups[group].Rows), "ns/row")
}
