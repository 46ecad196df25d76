package samplepool

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func truthOf(t *testing.T, o Options) (*Pool, *Truth) {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	return p, truth
}

// A GPU is always in at most one primary slot and one backfill slot, and free only while no claim holds it.
func TestTruthIsPossible(t *testing.T) {
	for seed := range uint64(5) {
		o := Default()
		o.Seed, o.Drains, o.MachineDown, o.Prevented = seed, 3, 3, 2
		_, truth := truthOf(t, o)
		type span struct {
			from, to time.Time
			what     string
		}
		held := map[string][]span{} // of a side of a GPU
		numbers := map[string]time.Time{}
		add := func(key string, s span) {
			require.False(t, s.to.Before(s.from), "%s %v", key, s)
			for _, other := range held[key] {
				require.False(t, s.from.Before(other.to) && other.from.Before(s.to), "%s: %v and %v", key, other, s)
			}
			held[key] = append(held[key], s)
		}
		for _, r := range truth.Runs {
			require.False(t, r.End.Before(o.Start) || r.End.After(o.End))
			require.Equal(t, r.Reason == Running, r.End.Equal(o.End))
			side := "primary"
			if r.Backfill {
				side = "backfill"
			}
			for _, g := range r.GPUs {
				add(fmt.Sprint(side, r.Machine, g), span{r.Start, r.End, r.Job})
			}
			key := fmt.Sprint(r.Job, r.Number)
			require.Zero(t, numbers[key], "a run has a number of its own")
			numbers[key] = r.Start
			if before, ok := numbers[fmt.Sprint(r.Job, r.Number-1)]; ok {
				require.True(t, before.Before(r.Start), "runs of a job follow one another")
			}
		}
		for _, a := range truth.Available {
			require.False(t, a.End.Before(o.Start) || a.End.After(o.End))
			add("primary"+a.Machine+a.GPU, span{a.Start, a.End, "free"})
			add("backfill"+a.Machine+a.GPU, span{a.Start, a.End, "free"})
		}
	}
}
