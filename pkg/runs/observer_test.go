package runs

import (
	"context"
	"testing"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/internal/dev/snapshotstest"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/timeline"
)

func observer(t *testing.T, bytes uint64) (*Observer, pool.Window) {
	t.Helper()
	dir := t.TempDir()
	at := time.Date(2025, 9, 2, 0, 0, 0, 0, time.UTC)
	var rows []snapshotstest.Row
	for i := range 4 {
		rows = append(rows, snapshotstest.Row{"Name": "backfill1@m", "Machine": "m", "AssignedGPUs": "GPU-a",
			"State": "Claimed", "RemoteOwner": "u@pool", "GlobalJobId": "ap#1.0#1756771200",
			"timestamp": at.Add(time.Duration(i) * 15 * time.Minute).Format("2006-01-02 15:04:05.000000")})
	}
	snapshotstest.Write(t, dir, map[string][]snapshotstest.Row{"gpu_state_2025-09.db": rows})
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	tl := timeline.New(timeline.Options{Source: registry.OpenDir(d, localtime.UTC), MaxBytes: 1 << 24})
	t.Cleanup(func() { require.NoError(t, tl.Close()) })
	return NewObserver(tl, bytes), pool.NewWindow(at, at.Add(time.Hour))
}

// Observations are cached as long as they fit.
func TestObservationsAreCached(t *testing.T) {
	w, window := observer(t, 1<<24)
	look := func(w *Observer, minutes pool.Micros) *Observed {
		o, err := w.ObserveWindow(t.Context(), pool.Window{From: window.From, To: window.From + minutes*pool.Minute - Reach},
			pool.Lists{})
		require.NoError(t, err)
		return o
	}
	one, two := look(w, 10), look(w, 20)
	require.Same(t, one, look(w, 10))
	require.Same(t, two, look(w, 20))
	require.Zero(t, w.MissingBytes())
	w.Close()
	require.NotSame(t, one, look(w, 10), "a closed observer keeps nothing")

	small, _ := observer(t, 100)
	require.NotSame(t, look(small, 10), look(small, 10))
	require.Equal(t, look(small, 10).bytes(), small.MissingBytes())
}

// Observations depend on the lists, also if these print alike: no file of tiers is not one without tiers, and a pattern
// with a space is not two.
func TestObservationsDependOnLists(t *testing.T) {
	w, window := observer(t, 1<<24)
	seen := map[*Observed]bool{}
	for _, tiers := range [][]pool.Tier{nil, {}, {{Name: "A", Patterns: []string{"H200 H100"}}},
		{{Name: "A", Patterns: []string{"H200", "H100"}}}, {{Name: "A H200", Patterns: []string{"H100"}}}} {
		o, err := w.ObserveWindow(t.Context(), window, pool.Lists{Tiers: tiers})
		require.NoError(t, err)
		require.False(t, seen[o], "%q", tiers)
		seen[o] = true
		again, err := w.ObserveWindow(t.Context(), window, pool.Lists{Tiers: tiers})
		require.NoError(t, err)
		require.Same(t, o, again)
	}
}

// A caller that waits for a history that another one computes leaves at its own deadline, and a failed one is computed
// again.
func TestWaitingEndsAtTheOwnDeadline(t *testing.T) {
	w, window := observer(t, 1<<24)
	o, err := w.ObserveWindow(t.Context(), window, pool.Lists{})
	require.NoError(t, err)
	first, giveUp := context.WithCancel(t.Context())
	begun, done := make(chan bool), make(chan error)
	go func() {
		_, err := o.plain.Get(first, "", otter.LoaderFunc[string, *History](
			func(context.Context, string) (*History, error) {
				begun <- true
				<-first.Done()
				return nil, first.Err()
			}))
		done <- err
	}()
	<-begun
	hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = o.History(hurried, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	patient := make(chan *History)
	go func() {
		known, _ := o.History(t.Context(), nil)
		patient <- known
	}()
	giveUp()
	require.ErrorIs(t, <-done, context.Canceled)
	require.NotNil(t, <-patient)
}

// A run that was there before the reach of a window begins for it with the first snapshot in reach, unless an ad says
// when it began.
func TestRunFromASnapshotOn(t *testing.T) {
	o := &Observed{View: &timeline.View{Times: []pool.Micros{0, 10, 20, 30}}}
	for _, byAd := range []bool{false, true} {
		run := Explained{Run: &Run{First: 0, Last: 3}, Start: 5, StartByAd: byAd}
		cut := run.From(o, 2)
		require.Equal(t, int32(2), cut.First)
		require.Equal(t, map[bool]pool.Micros{false: 20, true: 5}[byAd], cut.Start)
		require.Equal(t, int32(0), run.First, "others still see all of it")
		require.Same(t, &run, run.From(o, 0))
	}
}

// A GPU has a place on every day: without rows that of the day before, before its first rows that of the first day.
func TestPlaceOnDaysWithoutRows(t *testing.T) {
	o := &Observed{View: &timeline.View{Days: make([]*timeline.Day, 5)}, firstDay: 1, lastDay: 4}
	early, late := timeline.Place{Machine: 1, Device: 2}, timeline.Place{Machine: 1, Device: 3}
	days := []day{{}, {}, {of: []int32{0}, places: []timeline.Place{early}}, {},
		{of: []int32{0}, places: []timeline.Place{late}}}
	require.Equal(t, []timeline.Place{early, early, early, early, late}, o.places(days, 0))
	require.Equal(t, make([]timeline.Place, 5), o.places(days, 1), "no day shows it")
}

// Ads are the same if each answer has the same version; version 0 is not known to be the same as another one.
func TestAdsAreTheSame(t *testing.T) {
	ads := func(versions ...uint64) *Ads {
		a := &Ads{}
		for _, v := range versions {
			a.answers = append(a.answers, jobs.Result{Version: v})
		}
		return a
	}
	require.True(t, ads(1, 2).same(ads(1, 2)))
	require.False(t, ads(1, 2).same(ads(1, 3)))
	require.False(t, ads(1, 2).same(ads(1)))
	require.False(t, ads(1, 0).same(ads(1, 0)))
	require.False(t, ads().same(ads()))
}
