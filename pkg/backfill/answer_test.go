package backfill_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/pool"
)

const summary = `{"queryType": "backfillAvailability", "totals": false}`

// A period that began more than 7 days before the window is listed and counted, and in no statistics and no curve.
func TestLeftTruncated(t *testing.T) {
	var rows []snapshotstest.Row
	begin := time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for i := range 9 * 96 { // used, then available for more than 8 days, then taken
		r := snapshotstest.Row{"Machine": "m1", "AssignedGPUs": "a",
			"timestamp": begin.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000"),
			"Name":      "backfill2@m1", "State": "Unclaimed"}
		if i == 0 {
			r["State"], r["GlobalJobId"] = "Claimed", "ap#1.0#1"
		}
		if i > 9*96-5 {
			r["Name"], r["State"], r["GlobalJobId"] = "slot1_1@m1", "Claimed", "ap#2.0#1"
		}
		rows = append(rows, r)
	}
	dir := t.TempDir()
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-06.db": rows})
	s := runstest.Open(t, dir, "UTC")
	const columns = "%v %v %v left=%v unknown=%v"
	list := func(from, to time.Time) (lines []string, counts string) {
		w := pool.Window{From: from.UnixMicro(), To: to.UnixMicro()}
		for _, r := range golden.Rows(s.Ask(t, nil, w, `{"queryType": "backfillAvailability", "view": "periods"}`)) {
			lines = append(lines, fmt.Sprintf(columns, r["start"].(time.Time).Sub(begin), r["end"].(time.Time).Sub(begin),
				r["endReason"], r["leftTruncated"], r["unknownStart"]))
		}
		r := golden.Rows(s.Ask(t, nil, w, summary))[0]
		return lines, fmt.Sprintf("count %v censored %v unknown %v km %v", r["count"], r["censored"], r["unknownStart"],
			r["kmMedianHours"])
	}
	end := begin.Add(9 * 24 * time.Hour)
	lines, counts := list(end.Add(-24*time.Hour), end)
	require.Equal(t, []string{"24h0m0s 215h0m0s reclaimed left=true unknown=false"}, lines,
		"first seen 7 days before the window")
	require.Equal(t, "count 0 censored 0 unknown 0 km <nil>", counts)
	require.Contains(t, golden.Told(s.Ask(t, nil, pool.Window{From: end.Add(-24 * time.Hour).UnixMicro(),
		To: end.UnixMicro()}, summary)), "more than 7 days before the time range")

	lines, counts = list(begin.Add(7*24*time.Hour), end)
	require.Equal(t, []string{"15m0s 215h0m0s reclaimed left=false unknown=false"}, lines)
	require.Equal(t, "count 1 censored 0 unknown 0 km 214.75", counts)
}
