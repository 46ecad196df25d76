package runs_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// explained are a machine's runs, the unseen ones last.
func explained(x *runs.Explanation) (all []*runs.Explained) {
	for i := range x.Runs {
		all = append(all, &x.Runs[i])
	}
	for i := range x.Unseen {
		all = append(all, &x.Unseen[i])
	}
	return all
}

// overlapping are the explained runs that overlap a window, as texts, by machine.
func overlapping(o *runs.Observed, x *runs.Explanations, w pool.Window, pass func(int, *runs.Explained) bool) []string {
	var texts []string
	for m := range x.Machines {
		var of []*runs.Explained
		for _, e := range explained(&x.Machines[m]) {
			if e.Side == pool.Backfill && e.Start <= w.To && (e.End >= w.From || e.Outcome == runs.Running) &&
				(e.Link == runs.AdOnly || pass(m, e)) {
				of = append(of, e)
			}
		}
		slices.SortStableFunc(of, func(a, b *runs.Explained) int { return cmp.Compare(a.Start, b.Start) })
		for _, e := range of {
			texts = append(texts, fmt.Sprint(o.View.Names.Text(o.Machines[m].Name), e.Run.Job, e.GPUs, e.First, e.Last, e.Place,
				e.Start, e.End, e.Outcome, e.Evidence, e.Cause, e.Link, e.StartByAd, e.EndByAd, e.Clamped, e.UnknownCode))
		}
	}
	slices.Sort(texts) // pieces of one run may have another order when only some are wanted
	return texts
}

// The history of all runs, restricted to those that overlap a window, equals the history of only those.
func TestKnownIsWhatAWindowAsksFor(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	for name, sources := range runstest.Sources(t, "pool-b") {
		for _, window := range [][2]string{
			{"2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z"}, {"2025-11-01T03:00:00Z", "2025-11-01T09:30:00Z"},
			{"2025-11-02T05:10:00Z", "2025-11-02T08:00:00Z"},
		} {
			w := golden.Window(t, window[0], window[1])
			o, err := s.Runs.Look(t.Context(), w, s.Env.Lists)
			require.NoError(t, err)
			near := o.InReach(w)
			wanted := func(m, r int) bool { return o.Machines[m].Runs[r].Side == pool.Backfill && near(m, r) }
			var ads *runs.Ads
			if sources[0] != nil {
				var failure error
				ads, _, failure, err = o.Ask(t.Context(), sources[0], runs.Question{Window: w, Wanted: wanted, Unseen: w})
				require.NoError(t, err)
				require.NoError(t, failure)
			}
			alone, err := o.Explain(t.Context(), ads, wanted)
			require.NoError(t, err)
			known, err := o.Known(t.Context(), sources[0])
			require.NoError(t, err)
			require.Equal(t, sources[0] != nil, known.Sharp)
			all := func(int, *runs.Explained) bool { return true }
			want := overlapping(o, alone, w, all)
			require.NotEmpty(t, want)
			require.Equal(t, want, overlapping(o, known.Explanations, w, all), "%s %s", name, window)
			require.Equal(t, want, overlapping(o, known.Explanations, w, known.Choose(wanted)), "%s %s, chosen", name, window)
			if ads != nil {
				require.Equal(t, ads.ClocksIn(w), known.Clocks.ClocksIn(w))
			}
		}
	}
}

// Ads that come late are seen when it is time to ask again, and at once if another question has found them.
func TestKnownSeesLateAds(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	o, err := s.Runs.Look(t.Context(), w, s.Env.Lists)
	require.NoError(t, err)
	now := time.Date(2025, 11, 3, 6, 0, 0, 0, time.UTC)
	memory := jobstest.NewMemory()
	cache := jobs.NewCache(1<<26, func() time.Time { return now })
	source := cache.Source(memory, "memory", nil)
	known := func() *runs.Known {
		k, err := o.Known(t.Context(), source)
		require.NoError(t, err)
		return k
	}
	linked := func(k *runs.Known) (n int) {
		for m := range k.Machines {
			for _, e := range k.Machines[m].Runs {
				if e.Link.Linked() {
					n++
				}
			}
		}
		return n
	}
	first := known()
	require.Zero(t, linked(first))
	require.NotEmpty(t, memory.Asked())
	require.Same(t, first, known())
	require.Empty(t, memory.Asked())

	memory.Add(bytes.Split(bytes.TrimSpace(golden.Read(t, "pool-b", "jobs_epochs.jsonl")), []byte("\n"))...)
	now = now.Add(4 * time.Minute)
	require.Same(t, first, known(), "too early to ask again")
	now = now.Add(2 * time.Minute)
	fresh := known()
	require.NotSame(t, first, fresh)
	require.Positive(t, linked(fresh), "runs that were seen lately")
	now = now.Add(7 * time.Hour)
	require.Greater(t, linked(known()), linked(fresh), "all others")
}

// hanging is a job source that answers when it is released.
type hanging struct {
	jobs.Source
	asked, release chan struct{}
}

func (h hanging) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	select {
	case h.asked <- struct{}{}: // the first time
	case <-h.release:
	}
	<-h.release
	return h.Source.Ads(ctx, wanted)
}

// A lookup that waits for another's request to a hanging source is answered in time, from snapshots only.
func TestKnownDoesNotWaitForAHangingSource(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	o, err := s.Runs.Look(t.Context(), golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z"), s.Env.Lists)
	require.NoError(t, err)
	source := hanging{jobstest.NewMemory(), make(chan struct{}), make(chan struct{})}
	done := make(chan error)
	go func() {
		_, err := o.Known(t.Context(), source)
		done <- err
	}()
	<-source.asked
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	known, err := o.Known(ctx, source)
	require.NoError(t, err)
	require.ErrorContains(t, known.Failure, "has not answered another query yet")
	require.False(t, known.Sharp)
	require.Positive(t, len(known.Machines[0].Runs))
	cancel()
	_, err = o.Known(ctx, source)
	require.ErrorIs(t, err, context.Canceled)
	close(source.release)
	require.NoError(t, <-done)
}
