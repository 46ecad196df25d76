package timeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
)

// Timestamps with a T between date and time are the same times, also in files that hold both forms, where texts are not
// in the order of time.
func TestTimestampsWithT(t *testing.T) {
	zone := "America/Chicago"
	location, err := time.LoadLocation(zone)
	require.NoError(t, err)
	begin := time.Date(2025, 9, 2, 0, 0, 0, 0, time.UTC)
	for name, form := range map[string]func(i int) string{
		"all": func(int) string { return "2006-01-02T15:04:05.000000" },
		"mixed": func(i int) string {
			return []string{"2006-01-02 15:04:05.000000",
				"2006-01-02T15:04:05"}[i/5%2]
		},
		"mixed snapshots": func(i int) string { return []string{"2006-01-02 15:04:05.000000", "2006-01-02T15:04:05"}[i%2] },
		"changed for ever": func(i int) string {
			return []string{"2006-01-02 15:04:05.000000",
				"2006-01-02T15:04:05"}[i/400]
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var rows []snapshotstest.Row
			for i := range 768 {
				at := begin.Add(time.Duration(i/2) * 15 * time.Minute).In(location)
				rows = append(rows, snapshotstest.Row{
					"Name": "slot1@m", "Machine": "m", "AssignedGPUs": []string{"GPU-0", "GPU-1"}[i%2], "State": "Unclaimed",
					"timestamp": at.Format(form(i)),
				})
			}
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rows})
			tl := open(t, dir, zone, "")
			defer tl.Close()
			v, err := tl.Load(t.Context(), begin.UnixMicro(), begin.Add(96*time.Hour).UnixMicro())
			require.NoError(t, err)
			require.Len(t, v.Times, 384)
			for i, at := range v.Times {
				require.Equal(t, begin.UnixMicro()+pool.Micros(i)*15*pool.Minute, at)
			}
			require.Empty(t, v.Notices)
			for _, d := range v.Days {
				require.Equal(t, 2, d.GPUs())
				require.Equal(t, 2, d.SpanCount())
			}
		})
	}
}
