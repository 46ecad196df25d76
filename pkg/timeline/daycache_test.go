package timeline

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/chtc/gpureports/pkg/localtime"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/segcache"
	"github.com/chtc/gpureports/pkg/snapshots"
	"github.com/chtc/gpureports/pkg/snapshots/registry"
)

type weight int

func (w weight) Bytes() int { return int(w) }

func day(date int) segcache.Blob { return segcache.Blob{Date: int32(date)} }

// The memory stays within its budget, however many put values into it, and counts exactly those that it holds.
func TestMemoryIsWhatIsHeld(t *testing.T) {
	c := newDayCache(nil, 1000, nil, nil)
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			for i := range 500 {
				c.memory.Set(day((i*7+worker*3)%11), weight(100+i%300))
			}
		})
	}
	wait.Wait()
	c.memory.CleanUp()
	held := 0
	for w := range c.memory.Values() {
		held += w.Bytes()
	}
	used := c.memory.WeightedSize()
	require.EqualValues(t, held, used)
	require.LessOrEqual(t, used, c.memory.GetMaximum())
	require.Positive(t, used)
}

// A value that is used again and again stays while others come and go.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	c := newDayCache(nil, 1000, nil, nil)
	c.memory.Set(day(1), weight(100))
	for date := 100; date < 300; date++ {
		_, kept := c.memory.GetIfPresent(day(1))
		require.True(t, kept, date)
		c.memory.Set(day(date), weight(300))
	}
}

// slowSource answers when it is released.
type slowSource struct {
	snapshots.Source
	reached chan struct{}
	release chan struct{}
}

type slowState struct {
	snapshots.State
	source *slowSource
}

func (s *slowSource) Look(ctx context.Context) (snapshots.State, error) {
	state, err := s.Source.Look(ctx)
	return slowState{state, s}, err
}

func (s slowState) Holds(context.Context, int32, snapshots.Known) (bool, error) { return false, nil }

func (s slowState) Rows(ctx context.Context, date int32, from snapshots.Known, v snapshots.Visitor) (
	snapshots.Reading, error) {
	s.source.reached <- struct{}{}
	<-s.source.release
	from.State = nil
	return s.State.Rows(ctx, date, from, v)
}

// Whoever waits for a day that another question derives leaves at its own deadline.
func TestWaiterLeavesAtItsDeadline(t *testing.T) {
	dir, rows, _ := finishedDays(t)
	tl := open(t, dir, "UTC", "")
	slow := &slowSource{Source: tl.Source(), reached: make(chan struct{}, 100), release: make(chan struct{})}
	tl.cache.source = slow
	defer tl.Close()
	at := rows[2*96*2+100].at
	first := make(chan error)
	go func() {
		_, err := tl.Load(t.Context(), at, at)
		first <- err
	}()
	<-slow.reached
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := tl.Load(ctx, at, at)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(slow.release)
	require.NoError(t, <-first)
}

// leaving is a state in which the one who asks leaves while a day is compared.
type leaving struct {
	snapshots.State
	leave context.CancelFunc
}

func (l leaving) Holds(ctx context.Context, _ int32, _ snapshots.Known) (bool, error) {
	l.leave()
	return false, ctx.Err()
}

// A panel that is canceled leaves the day in memory, where others find it.
func TestCanceledPanelsKeepTheDay(t *testing.T) {
	dir, _, window := finishedDays(t)
	d, err := snapshots.OpenDir(dir)
	require.NoError(t, err)
	tl := New(Options{Source: registry.OpenDir(d, localtime.UTC), MaxBytes: 1 << 30})
	defer tl.Close()
	_ = load(t, tl, window)
	state, err := tl.look(t.Context())
	require.NoError(t, err)
	date := pool.DayOf(window[len(window)/2].at)
	before := tl.segments.inMemory(tl.segments.blob(date, nil))
	require.NotNil(t, before)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = tl.segments.get(ctx, tl.segmentOf(leaving{state, cancel}, date, nil, new(loadStats)))
	require.ErrorIs(t, err, context.Canceled)
	require.Same(t, before, tl.segments.inMemory(tl.segments.blob(date, nil)))
}
