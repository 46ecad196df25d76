package reliability

import (
	"runtime"
	"strings"
	"testing"
	"time"

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
	openAndClose := func(times int) {
		for range times {
			d := open(t, o.End, jsonData)
			for i, answer := range ask(t, d, o.Start, o.End, queries...) {
				require.NoError(t, answer.Error, queries[i])
			}
			d.Dispose()
		}
	}
	heapKB := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc >> 10
	}
	openAndClose(10)
	few := heapKB()
	openAndClose(40) // enough that a leak outgrows memory that is not freed yet
	many := uint64(0)
	// Caches give memory back in the background, after a round or two of the collector.
	require.Eventually(t, func() bool { many = heapKB(); return many < few+500 }, time.Minute, 20*time.Millisecond,
		"a pool's observation alone takes 100 KB")
	figure("Data sources opened, queried and closed", "heap after 10: %d KB, after 40 more: %d KB", few, many)
}
