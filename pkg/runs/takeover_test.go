package runs

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/timeline"
)

// Claims whose pieces stand among those of others are taken over as they were, run by run or whole parts at a time,
// behind whatever was explained before them.
func TestClaimsAreTakenOverByDefinition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.IntRange(1, 150).Draw(rt, "runs")
		claims := rapid.SliceOfN(rapid.IntRange(0, count-1), count, count).Draw(rt, "claims")
		before, o := explainedClaims(rt, claims)
		whole := rapid.SliceOfN(rapid.Bool(), count, count).Draw(rt, "whole")
		l := linker{observed: o, machine: &o.Machines[0], whole: whole[:o.Machines[0].Runs.Parts()], again: &again{
			before: &Known{Explanations: &Explanations{Machines: []Explanation{before}}}, basis: &basis{observed: o}}}

		shift := rapid.IntRange(0, 40).Draw(rt, "explained before")
		x, all := Explanation{of: slices.Repeat([]int32{-1}, count)}, newMaker(before.Runs, 0)
		for i := range shift {
			all.append(Explained{number: -1})
			x.groups = append(x.groups, int32(i))
		}
		for i := 0; i < count; i++ {
			if x.of[i] < 0 {
				i = l.takeOver(&all, &x, i) - 1
			}
		}

		require.Equal(rt, before.Runs.Len(), all.Len()-shift)
		for i, was := range before.Runs.All() {
			now := all.At(shift + i)
			require.Equal(rt, was.number, now.number)
			require.Same(rt, was.Run, now.Run)
			require.Equal(rt, before.groups[i]+int32(shift), x.groups[shift+i])
		}
		for i, of := range before.of {
			require.Equal(rt, of+int32(shift), x.of[i], "run %d", i)
		}
	})
}

// explainedClaims are runs of one machine, each of the claim with a number, and explanations of them: some pieces of a
// claim are joined, some are cut into two.
func explainedClaims(rt *rapid.T, claims []int) (Explanation, *Observed) {
	last := map[int]int{}
	for i, c := range claims {
		last[c] = i
	}
	runs := newMaker(List[Run]{}, len(claims))
	for i, c := range claims {
		run := Run{Job: timeline.Job{Schedd: 1, Cluster: uint32(c + 1)}, First: int32(i), Last: int32(i)}
		if last[c] != i {
			run.Ending = Interrupted
		}
		runs.append(run)
	}
	o := &Observed{Machines: []Machine{{Runs: runs.List}}}
	o.jobs = sync.OnceValue(o.indexJobs)

	x, all := Explanation{of: make([]int32, len(claims))}, newMaker(List[Explained]{}, len(claims))
	group := int32(0)
	for first, claim := range claims {
		if slices.Index(claims, claim) < first {
			continue
		}
		for piece := first; piece < len(claims); piece++ {
			if claims[piece] != claim {
				continue
			}
			if piece > first && rapid.Bool().Draw(rt, "joined") {
				x.of[piece] = int32(all.Len() - 1)
				continue
			}
			x.of[piece] = int32(all.Len())
			for range rapid.IntRange(1, 2).Draw(rt, "parts") {
				all.append(Explained{Run: o.Machines[0].Runs.At(piece), number: int32(piece)})
				x.groups = append(x.groups, group)
			}
		}
		group++
	}
	x.Runs = all.List
	return x, o
}
