package samplepool

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type gpuKey struct{ machine, id string }

func truthOf(t *testing.T, o Options) (*Pool, *Truth) {
	t.Helper()
	p, err := New(o)
	require.NoError(t, err)
	truth, err := p.Truth(t.Context())
	require.NoError(t, err)
	return p, truth
}

// The shares that the presets promise, measured from what happened.
func TestShares(t *testing.T) {
	for name, o := range map[string]Options{"Default": days(Default(), 28), "Hard": Hard(), "RightClocks": RightClocks()} {
		t.Run(name, func(t *testing.T) {
			_, truth := truthOf(t, o)
			owners := map[gpuKey][]time.Time{}
			for _, r := range truth.Runs {
				if !r.Backfill {
					for _, g := range r.GPUs {
						owners[gpuKey{r.Machine, g}] = append(owners[gpuKey{r.Machine, g}], r.Start)
					}
				}
			}
			followed := func(r Run) bool {
				for _, g := range r.GPUs {
					for _, start := range owners[gpuKey{r.Machine, g}] {
						if start.After(r.End) && start.Sub(r.End) <= o.Cadence {
							return true
						}
					}
				}
				return false
			}
			var finished, short, held, completed, follow, hidden, multi float64
			reasons := map[Reason]int{}
			for _, r := range truth.Runs {
				reasons[r.Reason]++
				if r.HiddenJobID {
					hidden++
				}
				if len(r.GPUs) > 1 {
					multi++
				}
				if !r.Backfill || r.Reason == Running {
					continue
				}
				finished++
				if r.End.Sub(r.Start) < o.Cadence {
					short++
				}
				switch r.Reason {
				case Held:
					held++
				case Completed:
					completed++
					if followed(r) {
						follow++
					}
				}
			}
			near := func(want, got float64, what string) {
				require.InDelta(t, want, got, 0.2*want+0.005, "%s: %.4f", what, got)
			}
			near(o.Holds, held/finished, "holds")
			near(o.OwnerAfterCompletion, follow/completed, "owner after completion")
			near(o.MissingJobIDs, hidden/float64(len(truth.Runs)), "missing job ids")
			// Owners come early of their own accord too, so little hardness is not to be had.
			require.GreaterOrEqual(t, short/finished, 0.95*o.ShortRuns)
			require.LessOrEqual(t, short/finished, o.ShortRuns+0.03)
			require.GreaterOrEqual(t, held/finished, 0.018)
			require.GreaterOrEqual(t, follow/completed, 0.05)
			require.GreaterOrEqual(t, short/finished, 0.03)
			require.Greater(t, multi/float64(len(truth.Runs)), 0.1)
			for _, reason := range []Reason{Completed, EvictedByPrimary, DrainedReason, Removed, Held, HostDown, Running} {
				require.NotZero(t, reasons[reason], reason)
			}
		})
	}
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

func TestEvictedRunsHaveAnOwnersClaim(t *testing.T) {
	_, truth := truthOf(t, Hard())
	claims := map[gpuKey][]time.Time{}
	for _, r := range truth.Runs {
		if !r.Backfill {
			for _, g := range r.GPUs {
				claims[gpuKey{r.Machine, g}] = append(claims[gpuKey{r.Machine, g}], r.Start)
			}
		}
	}
	evicted := 0
	for _, r := range truth.Runs {
		if r.Reason != EvictedByPrimary {
			continue
		}
		evicted++
		require.True(t, r.Backfill)
		proof := false
		for _, g := range r.GPUs {
			for _, start := range claims[gpuKey{r.Machine, g}] {
				proof = proof || !start.Before(r.Start) && start.Before(r.End) && r.End.Sub(start) <= 10*time.Second
			}
		}
		require.True(t, proof, "%+v", r)
	}
	require.Greater(t, evicted, 1000)
}
