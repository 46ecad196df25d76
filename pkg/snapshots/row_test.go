package snapshots

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
)

// texts are a usual row.
var texts = Texts{Name: "slot1_3@gpu2001.example.org", AssignedGPUs: "GPU-0a1b2c3d", SlotState: "Claimed",
	DeviceName: "NVIDIA H200", GlobalMemoryMb: "143771", PrioritizedProjects: "Chem,Phys", Machine: "gpu2001.example.org",
	RemoteOwner: "ann@example.org", GlobalJobID: "ap1.example.org#12.3#1759276000", BackfillSlot: "0", SlotType: "Dynamic",
	Cpus: "8", Memory: "65536"}

// rowOf makes a row of texts.
func rowOf(texts Texts) (row Row) {
	for _, text := range texts {
		row = AppendText(row, text)
	}
	return row
}

// A text that means no value is none in any column, numbers too; each is told with its column.
func TestValuesOfEachColumn(t *testing.T) {
	got, odd := rowOf(texts).Values()
	require.Equal(t, texts, got)
	require.Empty(t, odd)
	for column := range Columns {
		changed := texts
		changed[column] = " Undefined "
		got, odd := rowOf(changed).Values()
		require.Empty(t, got[column], ColumnNames[column])
		require.Equal(t, []Odd{{Column(column), pool.NoValue, " Undefined "}}, odd, ColumnNames[column])
	}
}
