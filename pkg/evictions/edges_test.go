package evictions_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
)

// claims is a pool of one GPU whose backfill slot a job holds at some of the times of a day.
func claims(times []string, held ...int) *golden.Case {
	c := &golden.Case{}
	for i, at := range times {
		row := func(name, state string) map[string]any {
			return map[string]any{"Name": name, "AssignedGPUs": "GPU-a", "State": state, "Machine": "m1",
				"timestamp": "2026-03-02 " + at + ":00.000000"}
		}
		backfill := row("backfill2_1@m1", "Unclaimed")
		for _, n := range held {
			if n == i {
				backfill = row("backfill2_1@m1", "Claimed")
				backfill["RemoteOwner"], backfill["GlobalJobId"] = "bob", "ap1#1.0#1772400000"
			}
		}
		c.Rows = append(c.Rows, row("slot1@m1", "Unclaimed"), backfill)
	}
	return c
}

// A run that ends with the first moment of a bucket counts in it, as its end does.
func TestRunThatEndsWithABucketsFirstMoment(t *testing.T) {
	var times []string
	for h := range 6 {
		times = append(times, fmt.Sprintf("%02d:15", h), fmt.Sprintf("%02d:45", h))
	}
	s := runstest.Open(t, claims(times, 2, 3).Write(t), "UTC") // 01:00 to 02:00
	rows := golden.Rows(s.Ask(t, nil, golden.Window(t, "2026-03-02T00:00:00Z", "2026-03-02T05:00:00Z"),
		`{"queryType": "evictions", "view": "timeseries", "bucket": "1h", "metrics": ["runs"]}`))
	var got []any
	for _, row := range rows {
		for name, value := range row {
			if name != "time" {
				got = append(got, value)
			}
		}
	}
	require.Equal(t, []any{0.0, 1.0, 1.0, 0.0, 0.0}, got[:5], rows)
}

// Runs that ended before their start by the ads are counted in a notice.
func TestClampedRunsAreCounted(t *testing.T) {
	c := claims([]string{"12:00", "12:15", "12:30", "12:45", "13:00", "13:15"}, 2)
	const start, end = 1772453520.0, 1772454510.0 // 12:12 and 12:28:30
	c.Ads = []golden.Ad{{Kind: "history", Ad: map[string]any{"GlobalJobId": "ap1#1.0#1772400000", "RecordTime": end,
		"JobStatus": 4.0, "CompletionDate": end, "JobCurrentStartDate": start, "StartdSlot": "backfill2_1", "StartdName": "m1"}}}
	s := runstest.Open(t, c.Write(t), "UTC")
	frames := s.Ask(t, runstest.AdsOf(t, c, &golden.CaseQuery{Jobs: "ads"}),
		golden.Window(t, "2026-03-02T12:00:00Z", "2026-03-02T13:15:00Z"), summary)
	require.Contains(t, golden.Told(frames),
		"1 run ended before the start by the job ads: the end is set to the start")
	frames = s.Ask(t, nil, golden.Window(t, "2026-03-02T12:00:00Z", "2026-03-02T13:15:00Z"), summary)
	require.NotContains(t, golden.Told(frames), "before the start")
}
