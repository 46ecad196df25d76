package reliability

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a data source has read and observed goes when it is closed. (Counts of allocation are small and age out.)
func TestClosedDataSourcesLeaveNothing(t *testing.T) {
	o := small()
	jsonData := map[string]any{"snapshotDir": write(t, o), "jobs": "sqlite"}
	var queries []string
	for _, q := range views() {
		if strings.Contains(q, "evictions") || strings.Contains(q, "backfillAvailability") {
			queries = append(queries, q)
		}
	}
	heapKB := func(closed int) uint64 {
		for range closed {
			d := open(t, o.End, jsonData)
			for i, answer := range ask(t, d, o.Start, o.End, queries...) {
				require.NoError(t, answer.Error, queries[i])
			}
			d.Dispose()
		}
		runtime.GC()
		runtime.GC() // the second one frees what pools kept over the first
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc >> 10
	}
	few := heapKB(10)
	many := heapKB(20)
	require.Less(t, many, few+500, "a pool's observation alone takes 100 KB")
	figure("Data sources opened, asked and closed", "heap after 10: %d KB, after 20 more: %d KB", few, many)
}
