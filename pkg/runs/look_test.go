package runs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
	"github.com/chtc/gpureports/pkg/snapshots/snapshotstest"
	"github.com/chtc/gpureports/pkg/timeline"
)

func observer(t *testing.T) (*Observer, pool.Window) {
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
	return NewObserver(tl, 1<<24), pool.NewWindow(at, at.Add(time.Hour))
}

// Who observes keeps nobody waiting: not who asks for what is known, and no other data source.
func TestObserversDoNotWaitForEachOther(t *testing.T) {
	busy, w := observer(t)
	other, _ := observer(t)
	known, err := busy.Look(t.Context(), w, pool.Lists{})
	require.NoError(t, err)
	require.NoError(t, busy.turn.Acquire(t.Context(), 1)) // as if another window were being observed
	again, err := busy.Look(t.Context(), w, pool.Lists{})
	require.NoError(t, err)
	require.Same(t, known, again)
	_, err = other.Look(t.Context(), w, pool.Lists{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = busy.Look(ctx, pool.Window{From: w.From, To: w.To - 20*pool.Minute},
		pool.Lists{CHTCOwned: map[string]bool{"m": true}})
	require.ErrorIs(t, err, context.DeadlineExceeded, "who waits does so no longer than its own deadline")
	busy.turn.Release(1)

	busy.Close()
	fresh, err := busy.Look(t.Context(), w, pool.Lists{})
	require.NoError(t, err)
	require.NotSame(t, known, fresh, "closed observers keep nothing")
}

// What was asked for last stays, as far as there is room, also for what becomes known of it.
func TestObserversKeepWhatWasAskedForLast(t *testing.T) {
	w, window := observer(t)
	look := func(minutes pool.Micros) *Observed {
		o, err := w.Look(t.Context(), pool.Window{From: window.From, To: window.From + minutes*pool.Minute - Reach},
			pool.Lists{})
		require.NoError(t, err)
		return o
	}
	one, two := look(10), look(20)
	room := one.bytes() + two.bytes()
	w.budget = room
	require.Same(t, one, look(10), "there is room for both")
	three := look(40)
	require.NotSame(t, two, look(20), "it was not asked for the longest time")
	require.NotSame(t, one, look(10), "nor was it then")
	require.NotSame(t, three, look(40))

	one, two = look(10), look(20)
	require.Same(t, one, look(10))
	require.Same(t, two, look(20))
	_, err := two.Known(t.Context(), nil)
	require.NoError(t, err)
	require.Same(t, two, look(20))
	require.NotSame(t, one, look(10), "what is known of the other one takes its room")
}
