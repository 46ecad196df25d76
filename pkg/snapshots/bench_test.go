package snapshots

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

type counter struct{ snapshots, rows, bytes int }

func (c *counter) Snapshot(int64, []byte) (bool, error) { c.snapshots++; return true, nil }
func (c *counter) Row(r Row) error                      { c.rows++; c.bytes += len(r); return nil }

// BenchmarkScan reads the month file named by GPUREPORTS_MONTH in both ways.
func BenchmarkScan(b *testing.B) {
	dir := os.Getenv("GPUREPORTS_BENCH_DIR")
	if dir == "" {
		b.Skip("GPUREPORTS_BENCH_DIR names no directory of month files")
	}
	d, err := OpenDir(dir)
	require.NoError(b, err)
	defer d.Close()
	files, err := d.Files(b.Context())
	require.NoError(b, err)
	f := files[len(files)/2]
	s, err := f.State(b.Context())
	require.NoError(b, err)
	r := Rowids{s.First + (s.Last-s.First)/2, s.First + (s.Last-s.First)/2 + 140_000}
	for name, scan := range map[string]func(Rowids, *runs) error{
		"sql":   func(r Rowids, run *runs) error { return f.scanSQL(b.Context(), s, r, run) },
		"pages": func(r Rowids, run *runs) error { return f.scanPages(b.Context(), s, &r, run) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := &counter{}
				require.NoError(b, scan(r, &runs{visitor: c}))
				require.Equal(b, 140_001, c.rows)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/140_001, "ns/row")
		})
	}
}
