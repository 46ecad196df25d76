package timeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

func rowsAt(times ...pool.Micros) (rows []snapshotstest.Row) {
	for _, at := range times {
		rows = append(rows, snapshotstest.Row{"Name": "slot1@m", "Machine": "m", "AssignedGPUs": "GPU-0",
			"State":     "Unclaimed",
			"timestamp": pool.Time(at).Format("2006-01-02 15:04:05.000000")})
	}
	return rows
}

// every returns n times from a time onward.
func every(step, from pool.Micros, n int) (times []pool.Micros) {
	for i := range n {
		times = append(times, from+pool.Micros(i)*step)
	}
	return times
}

// A distance of exactly the limit is not a gap, one that is a microsecond longer is (methodology section 1: max(2.5 ×
// cadence, 20 min)).
func TestGapOfExactlyTheLimit(t *testing.T) {
	for _, c := range []struct{ cadence, limit pool.Micros }{
		{15 * pool.Minute, 37*pool.Minute + 30*pool.Second}, {10 * pool.Minute, 25 * pool.Minute},
		{8 * pool.Minute, 20 * pool.Minute}, {5 * pool.Minute, 20 * pool.Minute},
	} {
		times := every(c.cadence, start, 10)
		times = append(times, every(c.cadence, times[9]+c.limit, 10)...)
		times = append(times, every(c.cadence, times[19]+c.limit+1, 10)...)
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rowsAt(times...)})
		tl := open(t, dir, "UTC", "")
		v, err := tl.Load(t.Context(), start, times[len(times)-1])
		require.NoError(t, err)
		require.NoError(t, tl.Close())
		require.Equal(t, []Gap{{times[19], times[20]}}, v.Gaps(pool.Window{From: start, To: times[len(times)-1]}))
	}
}

// A day with few snapshots has the cadence of the day before, even if only the later day is requested; and 15
// minutes without such a day.
func TestCadenceLooksBack(t *testing.T) {
	next := start + pool.Day
	few := every(9*pool.Minute, next+12*pool.Hour, 8) // 7 distances
	for _, c := range []struct {
		before []pool.Micros
		want   pool.Micros
	}{
		{every(5*pool.Minute, start, 288), 5 * pool.Minute},
		{every(5*pool.Minute, start, 9), 5 * pool.Minute},
		{every(5*pool.Minute, start, 8), 15 * pool.Minute},
		{nil, 15 * pool.Minute},
		{every(5*pool.Minute, start-pool.Day, 288), 15 * pool.Minute},
	} {
		dir := t.TempDir()
		snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: rowsAt(append(c.before, few...)...)})
		tl := open(t, dir, "UTC", "")
		v, err := tl.Load(t.Context(), few[0], few[len(few)-1])
		require.NoError(t, err)
		require.NoError(t, tl.Close())
		require.Equal(t, c.want, v.Cadence(pool.DayOf(next)), "%d snapshots before", len(c.before))
	}
}
