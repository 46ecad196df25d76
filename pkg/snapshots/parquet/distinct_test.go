package parquet

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/snapshots"
)

// Rows that are made of codes are those of their texts, of any length, and stay so while others are made.
func TestDistinctRows(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	values := []string{"", "a", strings.Repeat("b", 200), strings.Repeat("c", 70_000), strings.Repeat("d", 3<<20)}
	var columns [snapshots.Columns]Texts
	const rows = 300
	for c := range columns {
		columns[c].Values = values
		for range rows {
			code := random.IntN(3)
			if random.IntN(300) == 0 {
				code += 2
			}
			columns[c].Codes = append(columns[c].Codes, uint32(code))
		}
	}
	columns[0].Codes[7] = 4
	made := newDistinct(&columns)
	var got []snapshots.Row
	var want []snapshots.Texts
	for i := range rows {
		var texts snapshots.Texts
		for c := range texts {
			texts[c] = values[columns[c].Codes[i]]
		}
		got, want = append(got, made.row(i)), append(want, texts)
	}
	for i := range want {
		require.True(t, want[i] == got[i].Columns(), "row %d", i)
	}
}
