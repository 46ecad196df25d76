package timeline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

// month is 28 days of a machine with 30 GPUs: a file with about 4,000 pages.
func month() (rows []snapshotstest.Row) {
	for i := range 28 * 96 {
		at := pool.Time(start + pool.Micros(i)*15*pool.Minute).Format("2006-01-02 15:04:05.000000")
		for g := range 30 {
			rows = append(rows, snapshotstest.Row{
				"Name": "slot1@machine-with-a-name.example.org", "Machine": "machine-with-a-name.example.org",
				"AssignedGPUs": fmt.Sprintf("GPU-%08d", g), "State": "Unclaimed", "GPUs_DeviceName": "NVIDIA H200", "timestamp": at,
			})
		}
	}
	return rows
}

// A damaged page loses only the days whose rows it contains: a notice names the file and the days, the other days
// answer, and reading ahead continues with older days. A window without any other day is an error. This includes the
// pages that searches read first, such as the one in the middle.
func TestDamagedPage(t *testing.T) {
	whole := t.TempDir()
	snapshotstest.Write(t, whole, map[string][]snapshotstest.Row{september: month()})
	content, err := os.ReadFile(filepath.Join(whole, september))
	require.NoError(t, err)
	const page = 4096
	pages := len(content) / page
	for _, damaged := range []int{40, pages / 4, pages/2 - 1, pages / 2, pages/2 + 37, pages * 3 / 4, pages - 40} {
		broken := slices.Clone(content)
		for i := damaged * page; i < (damaged+1)*page; i++ {
			broken[i] = 0xff
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, september), broken, 0o600))
		requireOtherDays(t, dir, fmt.Sprintf("page %d of %d", damaged, pages))
	}
}

func requireOtherDays(t *testing.T, dir, what string) {
	t.Helper()
	tl := open(t, dir, "UTC", "")
	defer tl.Close()
	v, err := tl.Load(t.Context(), start, start+28*pool.Day-1)
	require.NoError(t, err, what)
	require.GreaterOrEqual(t, len(v.Days), 26, "%s: it holds rows of one day, or of two with their margins", what)
	require.Less(t, len(v.Days), 28, what)
	for _, d := range v.Days {
		require.Len(t, d.Times, 96, what)
	}
	warnings := slices.DeleteFunc(slices.Clone(v.Notices), func(n Notice) bool { return !n.Warning })
	require.Len(t, warnings, 1, what)
	require.Contains(t, warnings[0].Text, september+" is damaged or truncated")
	left := int32(0)
	for date := pool.DayOf(start); date < pool.DayOf(start)+28; date++ {
		if !slices.ContainsFunc(v.Days, func(d *Day) bool { return d.Date == date }) {
			left = date
			require.Contains(t, warnings[0].Text,
				pool.Time(start+pool.Micros(date-pool.DayOf(start))*pool.Day).Format("2006-01-"))
		}
	}
	_, err = tl.Load(t.Context(), pool.Micros(left)*pool.Day, pool.Micros(left+1)*pool.Day-1)
	require.ErrorContains(t, err, september)
	require.Equal(t, pool.FaultSource, pool.FaultOf(err))

	ahead := open(t, dir, "UTC", "")
	defer ahead.Close()
	require.NoError(t, ahead.Warm(t.Context()))
	again, err := ahead.Load(t.Context(), start, start+28*pool.Day-1)
	require.NoError(t, err)
	require.GreaterOrEqual(t, int(again.Work.Kept), len(again.Days), "%s: what can be read was read ahead", what)
	require.Zero(t, again.Work.Read, what)
}

func TestRangesOfDates(t *testing.T) {
	d := pool.DayOf(start)
	require.Equal(t, "2025-09-01 to 2025-09-03, 2025-09-05, 2025-09-07 to 2025-09-08",
		ranges([]int32{d, d + 1, d + 2, d + 4, d + 6, d + 7}))
}
