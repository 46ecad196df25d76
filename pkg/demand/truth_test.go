package demand_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/demand"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/jobstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/survival"
)

// What is told of the queues of a made-up pool against what really happened there, with epoch ads and by snapshots
// alone: the outcomes of waits that a poll saw, starts that never were, and the median.
func TestAgainstTheTruth(t *testing.T) {
	for name, of := range map[string]func() samplepool.Options{"right clocks": samplepool.RightClocks,
		"hard": samplepool.Hard} {
		for _, withAds := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ads %v", name, withAds), func(t *testing.T) {
				o := of()
				o.Machines, o.End = 20, o.Start.Add(5*24*time.Hour)
				least := 0.95
				if name == "hard" && !withAds {
					least = 0.92 // one run in seven begins and ends between two snapshots there, and only its ad tells
				}
				checkTruth(t, o, withAds, least)
			})
		}
	}
}

func checkTruth(t *testing.T, o samplepool.Options, withAds bool, least float64) {
	made, err := samplepool.New(o)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, made.WriteSnapshots(t.Context(), dir))
	require.NoError(t, made.WriteQueues(t.Context(), dir))
	truth, err := made.Truth(t.Context())
	require.NoError(t, err)
	s := open(t, dir, o.Timezone)
	s.Ads = nil
	if withAds {
		s.Ads = epochs(t, made)
	}
	w := pool.Window{From: o.Start.Add(time.Hour).UnixMicro(), To: o.End.Add(-time.Hour).UnixMicro()}
	p := &query.Plan{Window: w, Env: s.Env}
	waits, polls, err := demand.WaitsOf(t.Context(), s.Stores, p)
	require.NoError(t, err)

	told := map[string][]*demand.Wait{}
	for i := range waits {
		job := s.Timeline.Names().JobText(waits[i].Job)
		told[job] = append(told[job], &waits[i])
	}
	starts := map[string][]pool.Micros{}
	for _, r := range truth.Runs {
		starts[r.Job] = append(starts[r.Job], r.Start.UnixMicro())
	}
	near := o.Polls.Microseconds()
	right, seen := 0, 0
	var items []survival.Item
	for _, i := range truth.Queues {
		begin, end := i.Begin.UnixMicro(), i.End.UnixMicro()
		if !i.Polled || end < w.From || begin > w.To {
			continue
		}
		fate := survival.Censored
		if i.How == samplepool.IdleStarted && end <= w.To {
			fate = survival.Event
		}
		items = append(items, survival.Item{Entry: max(0, w.From-begin), Exit: min(end, w.To) - begin, Fate: fate})
		for _, poll := range polls.Times {
			if begin <= poll && poll < end && w.Contains(end) {
				seen++
				if tells(told[i.Job], poll, end, i.How == samplepool.IdleStarted, near) {
					right++
				}
				break
			}
		}
	}
	require.Greater(t, seen, 200)
	share := float64(right) / float64(seen)
	require.GreaterOrEqual(t, share, least, "outcomes of the waits that a poll saw: %d of %d", right, seen)

	started := 0
	for job, list := range told {
		for _, one := range list {
			if one.Outcome != demand.Started || !w.Contains(one.End) {
				continue
			}
			started++
			was := false
			for _, start := range starts[job] {
				was = was || max(start-one.End, one.End-start) <= near
			}
			require.True(t, was, "a start of %s at %s that never was", job, pool.Time(one.End))
		}
	}
	median := func(items []survival.Item) float64 {
		age, ok := survival.KaplanMeier(items).Median()
		require.True(t, ok)
		return pool.Hours(age)
	}
	really, found := median(items), median(demand.Items(waits, p))
	t.Logf("outcomes right %.4f of %d, %d starts, median %.3f h, really %.3f h", share, seen, started, found, really)
	require.InDelta(t, really, found, max(0.1*really, o.Polls.Hours()))
}

// tells reports whether the wait that a poll saw is told with its outcome, and a start at about its time.
func tells(list []*demand.Wait, poll, end pool.Micros, started bool, near pool.Micros) bool {
	for _, w := range list {
		if w.First <= poll && poll <= w.Last {
			if started {
				return w.Outcome == demand.Started && max(w.End-end, end-w.End) <= near
			}
			return w.Outcome == demand.Left
		}
	}
	return false
}

// epochs are the pool's epoch ads.
func epochs(t *testing.T, made *samplepool.Pool) jobs.Source {
	t.Helper()
	ads, err := made.Ads(t.Context())
	require.NoError(t, err)
	m := jobstest.NewMemory()
	for _, ad := range ads {
		if ad.Epoch {
			m.Add(ad.JSON)
		}
	}
	return m
}
