package reliability

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
)

var begin = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

const september = "gpu_state_2025-09.db"

// shot is a snapshot of a tiny pool: who holds which GPU follows from its number.
func shot(at time.Time, n int) (rows []snapshotstest.Row) {
	for g := range 3 {
		r := snapshotstest.Row{"Name": fmt.Sprintf("slot1_%d@m", g), "Machine": "m",
			"AssignedGPUs": fmt.Sprintf("GPU-%d", g), "State": "Unclaimed",
			"GPUs_DeviceName": "NVIDIA L40S", "GPUs_GlobalMemoryMb": 45589, "timestamp": at.Format("2006-01-02 15:04:05.000000")}
		if (n/5+g)%3 > 0 {
			r["State"], r["RemoteOwner"], r["GlobalJobId"] = "Claimed", fmt.Sprintf("user%d", n/7%4),
				fmt.Sprintf("ap#%d.0#1756000000", n/5)
		}
		rows = append(rows, r)
	}
	return rows
}

// The collector's clock is set forward and back, runs at another time for a while, or one snapshot is of another year:
// rows are out of order. The answers are those of the same rows in the order of time.
func TestClockSetBack(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	rounds := 6
	if *long {
		rounds = 100
	}
	for round := range rounds {
		const days = 20
		var rows []snapshotstest.Row
		first, length := random.IntN(days*96), 1+random.IntN(1<<random.IntN(9))
		by := time.Duration(random.IntN(1<<random.IntN(12))+1) * 15 * time.Minute
		if round%2 == 1 {
			by = -by
		}
		if round%6 == 4 {
			by = 74 * 365 * 24 * time.Hour
		}
		by += 7 * time.Minute // no snapshot twice
		for n := range days * 96 {
			at := begin.Add(time.Duration(n) * 15 * time.Minute)
			if first <= n && n < first+length {
				at = at.Add(by)
			}
			rows = append(rows, shot(at, n)...)
		}
		what := fmt.Sprintf("%d snapshots from number %d on are %v off", length, first, by)
		written := t.TempDir()
		cache, now := t.TempDir(), begin.AddDate(0, 0, days)
		odd := open(t, now, map[string]any{"snapshotDir": written, "cacheDir": cache})
		db := snapshotstest.Open(t, written, september, snapshotstest.Schema,
			"journal_mode="+[]string{"DELETE", "WAL"}[round%2])
		half := len(rows) / 6 * 3
		snapshotstest.Append(t, db, snapshotstest.Schema, rows[:half]...)
		require.NoError(t, ask(t, odd, begin, now, `{"queryType": "allocation"}`)[0].Error)
		snapshotstest.Append(t, db, snapshotstest.Schema, rows[half:]...)
		ordered := slices.Clone(rows)
		slices.SortStableFunc(ordered, func(a, b snapshotstest.Row) int {
			return cmp.Compare(a["timestamp"].(string), b["timestamp"].(string))
		})
		sorted := t.TempDir()
		snapshotstest.Write(t, sorted, map[string][]snapshotstest.Row{september: ordered})
		queries := []string{`{"queryType": "allocation", "view": "summary"}`, `{"queryType": "userHours"}`,
			`{"queryType": "allocation", "view": "stateTimeline"}`, `{"queryType": "evictions"}`}
		// the whole month first, as reading ahead does: what no scan has come upon cannot be known
		even := open(t, now, map[string]any{"snapshotDir": sorted})
		for i, w := range [][2]time.Time{{begin, now}, {now.AddDate(0, 0, -2), now},
			{begin.AddDate(0, 0, 9), begin.AddDate(0, 0, 12)}, {begin, now}} {
			if i == 3 { // a restart
				odd = open(t, now, map[string]any{"snapshotDir": written, "cacheDir": cache})
			}
			started := time.Now()
			got := ask(t, odd, w[0], w[1], queries...)
			require.Less(t, time.Since(started), 20*time.Second, what)
			want := ask(t, even, w[0], w[1], queries...)
			for i, q := range queries {
				require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%s, %s – %s: %s", what, w[0], w[1], q)
			}
		}
	}
	figure("The collector's clock set back or forward", "%d files, by 7 minutes to 74 years, for one snapshot to days: "+
		"every answer the same as for the rows in order of time", rounds)
}

// quarters are n snapshots from the beginning onward.
func quarters(n int) (rows []snapshotstest.Row) {
	for i := range n {
		rows = append(rows, shot(begin.Add(time.Duration(i)*15*time.Minute), i)...)
	}
	return rows
}

// Rows whose timestamp cannot be read are left out, with a notice, also where they are a file's first or last.
func TestUnreadableTimestamps(t *testing.T) {
	clean, now := quarters(3*96), begin.AddDate(0, 0, 3)
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: clean})
	want := ask(t, open(t, now, map[string]any{"snapshotDir": dir}), begin, now, views()...)
	for _, text := range []any{"", "soon", "0000-00-00 00:00:00", "zzz", 12, nil, "2025-09-31 25:61:00", "9999-99-99",
		[]byte{0xff, 0x00}} {
		for _, at := range []int{0, 300, len(clean) / 3, len(clean)} { // len / 3: at midnight
			odd := snapshotstest.Row{"Name": "slot1_1@m", "Machine": "m", "AssignedGPUs": "GPU-1", "State": "Claimed",
				"timestamp": text}
			dir := t.TempDir()
			snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: slices.Insert(slices.Clone(clean), at, odd)})
			got := ask(t, open(t, now, map[string]any{"snapshotDir": dir}), begin, now, views()...)
			for i, q := range views() {
				require.Equal(t, figures(t, want[i]), figures(t, got[i]), "%v at %d: %s", text, at, q)
				require.Contains(t, notices(got[i]), "1 rows have no readable timestamp, such as ", "%v at %d: %s", text, at, q)
				require.Equal(t, 1, strings.Count(notices(got[i]), "no readable timestamp"), "%v at %d: %s", text, at, q)
			}
		}
	}
	dir = t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: {{"Name": "slot1_1@m", "Machine": "m",
		"timestamp": "soon"}}})
	answer := ask(t, open(t, now, map[string]any{"snapshotDir": dir}), begin, now, views()[0])[0]
	require.True(t, empty(answer.Frames))
	require.Contains(t, notices(answer), september+": none of its rows has a readable timestamp")
}

// A snapshot of another millennium costs no time: reading ahead does not try each day until then.
func TestSnapshotOfTheFuture(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	rows := quarters(3 * 96)
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{september: append(slices.Clone(rows),
		shot(begin.AddDate(7000, 0, 0), 1)...)})
	now := begin.AddDate(0, 0, 3)
	d := open(t, now, map[string]any{"snapshotDir": dir, "cacheDir": cache})
	health, err := d.CheckHealth(t.Context(), &backend.CheckHealthRequest{
		PluginContext: backend.PluginContext{User: &backend.User{Role: "Admin"}}})
	require.NoError(t, err)
	require.Contains(t, health.Message, "That is in the future")
	started := time.Now()
	answer := ask(t, d, begin, begin.AddDate(7500, 0, 0), `{"queryType": "allocation", "view": "health"}`)[0]
	require.NoError(t, answer.Error)
	require.Less(t, time.Since(started), 10*time.Second)
	for _, of := range []string{"segment", "usage"} { // a day has one of each
		files, err := filepath.Glob(filepath.Join(cache, "gpureports-segments", "*."+of))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		require.Less(t, len(files), 10)
	}

	plain := t.TempDir()
	snapshotstest.Write(t, plain, map[string][]snapshotstest.Row{september: rows})
	want := ask(t, open(t, now, map[string]any{"snapshotDir": plain}), begin, now, views()...)
	got := ask(t, d, begin, now, views()...)
	for i, q := range views() {
		require.Equal(t, figures(t, want[i]), figures(t, got[i]), q)
	}
}
