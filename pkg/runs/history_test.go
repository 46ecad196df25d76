package runs_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/golden"
	"github.com/chtc/gpureports/pkg/internal/dev/jobstest"
	"github.com/chtc/gpureports/pkg/internal/dev/runstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/runs"
)

// Ads that come late are seen when it is time to ask again, and at once if another question has found them.
func TestKnownSeesLateAds(t *testing.T) {
	s := runstest.Open(t, golden.Pool(t, "pool-b"), "America/Chicago")
	w := golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z")
	o, err := s.Runs.ObserveWindow(t.Context(), w, s.Env.Lists)
	require.NoError(t, err)
	now := time.Date(2025, 11, 3, 6, 0, 0, 0, time.UTC)
	memory := jobstest.NewMemory()
	cache := jobs.NewCache(1<<26, func() time.Time { return now })
	source := cache.Source(memory, "memory", nil)
	known := func() *runs.History {
		k, err := o.History(t.Context(), source)
		require.NoError(t, err)
		return k
	}
	linked := func(k *runs.History) (n int) {
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
	o, err := s.Runs.ObserveWindow(t.Context(), golden.Window(t, "2025-10-31T18:00:00Z", "2025-11-03T06:00:00Z"), s.Env.Lists)
	require.NoError(t, err)
	source := hanging{jobstest.NewMemory(), make(chan struct{}), make(chan struct{})}
	done := make(chan error)
	go func() {
		_, err := o.History(t.Context(), source)
		done <- err
	}()
	<-source.asked
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	known, err := o.History(ctx, source)
	require.NoError(t, err)
	require.ErrorContains(t, known.Failure, "has not answered another query yet")
	require.False(t, known.Sharp)
	require.Positive(t, len(known.Machines[0].Runs))
	cancel()
	_, err = o.History(ctx, source)
	require.ErrorIs(t, err, context.Canceled)
	close(source.release)
	require.NoError(t, <-done)
}
