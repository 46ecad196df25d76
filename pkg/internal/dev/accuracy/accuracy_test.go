package accuracy

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/samplepool"
)

// A small measurement comes close to the requirements of the complete one.
func TestMeasure(t *testing.T) {
	done := 0
	all, err := Measure(context.Background(), Options{Seeds: 1, Cadences: []time.Duration{15 * time.Minute}, Machines: 14,
		Days: 5, Done: func(n, of int) {
			require.Equal(t, 5, of)
			done = n
		}})
	require.NoError(t, err)
	require.Equal(t, 5, done)
	require.Len(t, all, 15)
	for _, f := range Failures(all) { // few machines are not a sample
		require.Regexp(t, "right clocks, 15 min, epoch ads: recall of (seen runs|all evictions) is 0.9|"+
			"right clocks, 15 min, epoch ads: precision is 0.99|mean vacancies|median error of ends in minutes is 0.0|"+
			"hard, 15 min, epoch ads: recall of (seen runs|all evictions) is 0.9|outcomes of waits that are right is 0.[89]|"+
			"snapshots alone: precision is 0.[78]|"+
			"idle for 2 h or more is 0.(8[5-9]|9)", f)
	}
	for i := range all {
		checkMeasured(t, &all[i])
	}
	causes := Causes(all)
	for _, word := range []string{"right clocks", "history ads", "missed: ", "reported by takeover",
		"of runs that no snapshot shows"} {
		require.Contains(t, causes, word)
	}

	document := Markdown(all, nil, nil, Options{Seeds: 1, Machines: 14, Days: 5})
	require.Contains(t, document, "1 of each kind and cadence, 14 machines\nover 5 days")
	require.Equal(t, 4*15, strings.Count(document, "| 15 min |"), "four tables, a row each measurement")
	for _, f := range Failures(all) {
		require.Contains(t, document, f)
	}
}

func checkMeasured(t *testing.T, m *Measurement) {
	require.Equal(t, 1, m.Pools)
	require.Greater(t, m.TrueSeen, 30)
	require.Greater(t, m.True, m.TrueSeen)
	require.Equal(t, m.TrueSeen-m.FoundSeen, sum(m.Missed))
	require.Equal(t, m.Told-m.Right, sum(m.Wrong))
	require.Positive(t, m.Demand.Seen)
	require.Positive(t, m.Demand.Starts)
	require.Len(t, m.Demand.Median.values, 1)
	require.Equal(t, m.Source == epochAds, len(m.Cost.Interval.values) == 1)
	require.Equal(t, m.Source == epochAds, m.Cost.Lost.Error() < 20)
	require.Equal(t, m.Source != snapshotsAlone, m.ByEvidence["job ad"].All > 0)
	if m.Kind != ordinary && m.Kind != hard {
		return
	}
	require.Greater(t, m.Precision(), 0.7)
	require.Greater(t, m.Recall(), 0.9)
	require.InDelta(t, 0, m.GPUHoursError, 2)
	require.Greater(t, m.Periods.Of(), 0.9)
	require.Less(t, m.Usage.Utilization.Median, 1.0)
	require.Greater(t, m.Usage.LongIdle, 10)
	require.Greater(t, m.Usage.Precision(), 0.9)
	require.Greater(t, m.Usage.Recall(), 0.8)
	if m.Source == snapshotsAlone {
		require.Greater(t, m.EventError.Median, 2.0, "half a cadence, on average")
	} else {
		require.Greater(t, m.ByEvidence["job ad"].Of(), 0.98)
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Measure(ctx, Options{Seeds: 1, Machines: 5, Days: 1})
	require.ErrorIs(t, err, context.Canceled)
}

// Correct, found, missed and wrong evictions, on runs that are written down.
func TestMatching(t *testing.T) {
	at := func(minutes int) time.Time { return time.Unix(0, 0).Add(time.Duration(minutes) * time.Minute) }
	run := func(start, end int, reason samplepool.Reason) *reality {
		return &reality{Run: &samplepool.Run{Start: at(start), End: at(end), Reason: reason}}
	}
	p := &opened{cadence: 15 * time.Minute}
	first, second := run(0, 100, samplepool.EvictedByPrimary), run(102, 110, samplepool.HostDown)
	runs := []*reality{first, second, run(300, 400, samplepool.Completed)}
	evicted := func(r *reality) bool { return r.evicted() && !r.found }
	require.Same(t, first, p.nearest(runs, at(98), evicted))
	require.Same(t, second, p.nearest(runs, at(106), evicted))
	first.found = true
	require.Same(t, second, p.nearest(runs, at(98), evicted))
	require.Nil(t, p.nearest(runs, at(126), evicted))
	require.Nil(t, p.nearest(runs, at(400), evicted))

	require.Equal(t, "the run completed", p.whatHappened(runs, at(390)))
	require.Equal(t, "the run went on", p.whatHappened(runs, at(350)))
	require.Equal(t, "evicted, more than a cadence off", p.whatHappened(runs, at(160)))
	require.Equal(t, "no such run", p.whatHappened(runs, at(1000)))

	told := func(outcome string, start, end int) []toldRun { return []toldRun{{outcome, at(start), at(end)}} }
	require.Equal(t, "told as ambiguous", p.whyMissed(told("ambiguous", 0, 105), first))
	require.Equal(t, "told as evicted, more than a cadence off", p.whyMissed(told("evicted", 0, 130), first))
	require.Equal(t, "told as one run with the next", p.whyMissed(told("running", 0, 500), first))
	require.Equal(t, "told as lost, more than a cadence off", p.whyMissed(told("lost", 0, 60), first))
	require.Equal(t, "not told", p.whyMissed(told("evicted", 200, 300), first))
	require.Equal(t, "not told, shorter than the cadence", p.whyMissed(nil, second))
}

// What a reported run's utilization and idle time are compared with.
func TestUsageOfRuns(t *testing.T) {
	at := func(hours float64) time.Time { return time.Unix(0, 0).Add(time.Duration(hours * float64(time.Hour))) }
	run := func(start, end, busy float64, idle ...float64) *samplepool.Run {
		r := &samplepool.Run{GPUs: []string{"a", "b"}, Start: at(start), End: at(end),
			Busy: time.Duration(busy * float64(time.Hour))}
		for i := 0; i < len(idle); i += 2 {
			r.Idle = append(r.Idle, [2]time.Time{at(idle[i]), at(idle[i+1])})
		}
		return r
	}
	first, second := run(0, 10, 15), run(11, 20, 0, 11, 20)
	require.Same(t, first, nearestRun([]*samplepool.Run{first, second}, at(-1), at(12)))
	require.Same(t, second, nearestRun([]*samplepool.Run{first, second}, at(9.5), at(20)))
	require.Nil(t, nearestRun([]*samplepool.Run{first}, at(10), at(12)))

	var u Usage
	u.compare(first, 76, true, 0)                          // truly 75 %
	u.compare(second, 0, false, 8*time.Hour)               // truly idle for 9 h
	u.compare(run(0, 4, 4, 1, 2.5), 51, true, 2*time.Hour) // for 1.5 h
	u.compare(run(0, 4, 4, 1, 3.5), 50, true, 0)
	u.finish()
	require.Equal(t, []float64{0, 1, 1}, u.Utilization.values)
	require.Equal(t, []float64{30, 60, 150}, u.IdleMinutes.values)
	require.Equal(t, []int{2, 2, 1}, []int{u.LongIdle, u.LongTold, u.LongRight})
}
