package runs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/jobs/jobstest"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/runs/runstest"
	"github.com/chtc/gpureports/pkg/samplepool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// counting counts the jobs that a source is asked for, and the days of short runs.
type counting struct {
	jobs.Remembering
	asked, days atomic.Int64
}

func (c *counting) Ads(ctx context.Context, wanted []jobs.Wanted) (jobs.Result, error) {
	c.asked.Add(int64(len(wanted)))
	return c.Remembering.Ads(ctx, wanted)
}

func (c *counting) Epochs(ctx context.Context, days []jobs.EpochDay) (jobs.Result, error) {
	c.days.Add(int64(len(days)))
	return c.Remembering.Epochs(ctx, days)
}

// whole is all that is known of an observation, as texts.
func whole(o *runs.Observed, k *runs.Known) []string {
	texts := []string{fmt.Sprint(k.Sharp, k.Failure, k.Notices, o.First, o.End)}
	for _, c := range k.Clocks.ClocksIn(pool.Window{To: 1 << 60}) {
		texts = append(texts, fmt.Sprint(c))
	}
	describe := func(m int, e *runs.Explained) string {
		names := o.View.Names
		return fmt.Sprint(names.Text(o.Machines[m].Name), names.JobText(e.Job), names.Text(e.User), names.Text(e.Project),
			names.Text(e.TakenBy), e.GPUs, e.Opening, e.Leader, e.First, e.Last, e.Gone, e.Side, e.Ending, e.Takeover,
			e.Number(), e.Place.Ownership, e.Place.Memory, names.Text(e.Place.Device), e.Start, e.End, e.Outcome,
			e.Evidence, e.Cause, e.Link, e.StartByAd, e.EndByAd, e.Clamped, e.UnknownCode)
	}
	for m := range k.Machines {
		for _, e := range explained(&k.Machines[m]) {
			texts = append(texts, describe(m, e))
		}
		for r, run := range o.Machines[m].Runs.All() {
			for _, at := range []int32{run.First, run.Last} {
				texts = append(texts, fmt.Sprint(r, at, describe(m, k.Machines[m].Of(int32(r), at))))
			}
		}
	}
	return texts
}

// sharing is how many runs, explained runs and segments two observations have in common.
type sharing struct{ runs, explained, segments int }

func (s *sharing) add(o, p *runs.Observed, x, y *runs.Known) {
	for m := range min(len(o.Machines), len(p.Machines)) {
		s.runs += common(&o.Machines[m].Runs, &p.Machines[m].Runs)
		s.explained += common(&x.Machines[m].Runs, &y.Machines[m].Runs)
		for g := range min(len(o.Machines[m].GPUs), len(p.Machines[m].GPUs)) {
			s.segments += common(&o.Machines[m].GPUs[g].Segments, &p.Machines[m].GPUs[g].Segments)
		}
	}
}

// common is the number of elements that two lists share.
func common[T any](a, b *runs.List[T]) (n int) {
	for i := range min(a.Len(), b.Len()) {
		if a.At(i) == b.At(i) {
			n++
		}
	}
	return n
}

// What is taken over when snapshots and ads come, or when either changes, is what explaining everything again gives.
func TestOnlyWhatChangedIsExplainedAgain(t *testing.T) {
	for seed, odd := range []struct {
		shortRuns, missingJobIDs float64
		clockSkew                time.Duration
	}{{}, {0.2, 0.4, 10 * time.Minute}, {0.4, 0.4, 0}, {0.4, 0, 0}, {0.4, 0, 10 * time.Minute}} {
		options := samplepool.Default()
		options.Seed, options.Machines = uint64(seed+1), 8
		options.ShortRuns, options.MissingJobIDs, options.ClockSkew = odd.shortRuns, odd.missingJobIDs, odd.clockSkew
		p, err := samplepool.New(options)
		require.NoError(t, err)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { explainAgain(t, p, rand.New(rand.NewPCG(uint64(seed), 3))) })
	}
}

func explainAgain(t *testing.T, p *samplepool.Pool, random *rand.Rand) {
	g := runstest.Grow(t, p)
	all, err := p.Ads(t.Context())
	require.NoError(t, err)
	var now time.Time
	archive := jobstest.NewMemory()
	source := &counting{Remembering: jobs.NewCache(1<<28, func() time.Time { return now }).Source(archive, "archive", nil)}
	s, fresh := runstest.Open(t, g.Dir, "America/Chicago"), runstest.Open(t, g.Dir, "America/Chicago")
	g.Add(100)
	asked, everything := 0, 0
	var before *runs.Observed
	var knownBefore *runs.Known
	var textsBefore []string
	var shared sharing
	for step := range 24 {
		early := time.Duration(random.IntN(2)*random.IntN(180)) * time.Minute // before the snapshots
		now = g.Add(random.IntN(14)).Add(time.Duration(random.IntN(600)) * time.Second)
		switch random.IntN(12) {
		case 0:
			g.Edit(random)
		case 1:
			now = now.Add(8 * time.Hour) // nobody asked for long
		}
		all = slices.DeleteFunc(all, func(ad samplepool.Ad) bool {
			arrived := now.Add(early).Unix() >= ad.RecordTime && random.IntN(3) > 0 // the others are late
			if arrived {
				archive.Add(ad.JSON)
			}
			return arrived
		})
		archive.Err = nil
		if random.IntN(10) == 0 {
			archive.Err = pool.SourceError("the archive is away")
			now = now.Add(time.Hour)
		}
		w := pool.NewWindow(now.Add(-24*time.Hour), now)
		o, err := s.Runs.Look(t.Context(), w, s.Env.Lists)
		require.NoError(t, err)
		fresh.Runs.Close()
		again, err := fresh.Runs.Look(t.Context(), w, s.Env.Lists)
		require.NoError(t, err)
		require.NotSame(t, o, again)
		known := func(o *runs.Observed, asked *int) *runs.Known {
			source.asked.Store(0)
			k, err := o.Known(t.Context(), source)
			require.NoError(t, err)
			*asked += int(source.asked.Load())
			archive.Err = nil
			return k
		}
		var want, got *runs.Known
		if random.IntN(2) == 0 { // somebody else finds the late ads first
			want = known(again, &everything)
			got = known(o, &asked)
		} else {
			got = known(o, &asked)
			want = known(again, &everything)
		}
		texts := whole(o, got)
		require.Equal(t, whole(again, want), texts, "step %d, %v", step, now)
		if before != nil && before != o {
			require.Equal(t, textsBefore, whole(before, knownBefore), "step %d, what was known before", step)
			shared.add(before, o, knownBefore, got)
		}
		before, knownBefore, textsBefore = o, got, texts
		without, err := o.Known(t.Context(), nil)
		require.NoError(t, err)
		want, err = again.Known(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, whole(again, want), whole(o, without), "step %d, without ads", step)
	}
	require.Less(t, asked, everything*2/3)
	t.Logf("shared: %+v", shared)
	require.True(t, shared.runs > 0 && shared.explained > 0 && shared.segments > 0)
}

// growing makes a directory for a sample pool's snapshots, and a source that has all of its ads from the beginning.
func growing(t *testing.T, options samplepool.Options, now *time.Time) (*runstest.Growing, jobs.Remembering) {
	p, err := samplepool.New(options)
	require.NoError(t, err)
	archive := jobstest.NewMemory()
	all, err := p.Ads(t.Context())
	require.NoError(t, err)
	for _, ad := range all {
		archive.Add(ad.JSON)
	}
	return runstest.Grow(t, p), jobs.NewCache(1<<28, func() time.Time { return *now }).Source(archive, "archive", nil)
}

// After a snapshot, only the days of short runs are asked for whose ads may have changed or are read again.
func TestOnlyDaysThatMayHaveChangedAreAskedFor(t *testing.T) {
	options := samplepool.Default()
	options.Machines, options.ShortRuns, options.ClockSkew = 8, 0.1, 0
	var now time.Time
	g, archive := growing(t, options, &now)
	source := &counting{Remembering: archive}
	s := runstest.Open(t, g.Dir, "America/Chicago")
	ask := func(snapshots int) (days int) {
		now = g.Add(snapshots)
		o, err := s.Runs.Look(t.Context(), pool.NewWindow(now.Add(-24*time.Hour), now), s.Env.Lists)
		require.NoError(t, err)
		source.days.Store(0)
		_, err = o.Known(t.Context(), source)
		require.NoError(t, err)
		return int(source.days.Load())
	}
	first := ask(4 * 96)
	again := ask(1)
	require.Greater(t, again, 0, "the newest days are fresh")
	require.Less(t, again, first*2/3)
}

// Where rows lose the jobs that were numbered last, the others keep their numbers, and nothing is left of those.
func TestTheLastJobsGo(t *testing.T) {
	options := samplepool.Default()
	options.Machines = 5
	var now time.Time
	g, source := growing(t, options, &now)
	s, fresh := runstest.Open(t, g.Dir, "America/Chicago"), runstest.Open(t, g.Dir, "America/Chicago")
	know := func(snapshots int) (*runs.Observed, *runs.Known) {
		now = g.Add(snapshots)
		w := pool.NewWindow(now.Add(-48*time.Hour), now)
		o, err := s.Runs.Look(t.Context(), w, s.Env.Lists)
		require.NoError(t, err)
		got, err := o.Known(t.Context(), source)
		require.NoError(t, err)
		fresh.Runs.Close()
		again, err := fresh.Runs.Look(t.Context(), w, s.Env.Lists)
		require.NoError(t, err)
		want, err := again.Known(t.Context(), source)
		require.NoError(t, err)
		require.Equal(t, whole(again, want), whole(o, got))
		return o, got
	}
	know(4 * 96)
	know(96)
	for range 3 {
		o, known := know(1)
		var last []timeline.Job // as they are numbered: machine by machine
		elsewhere := map[timeline.Job]bool{}
		for m := range known.Machines {
			for _, e := range known.Machines[m].Runs.All() {
				if m+1 == len(known.Machines) && !elsewhere[e.Job] {
					last = append(last, e.Job)
				}
				elsewhere[e.Job] = true
			}
		}
		for _, job := range last[len(last)-8:] {
			g.Unname(o.View.Names.JobText(job))
		}
		know(0)
	}
}
