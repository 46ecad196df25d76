package demand

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// stay is the polls at which a job waits, and what its place in the line depends on.
type stay struct {
	wait         int32
	first, last  int
	memory, gpus float64
	job          string
}

// lineOf returns the jobs that wait at polls from a first to a last one, in the order in which they are served: those
// that ask for most GPU memory first, then those that ask for most GPUs, then by GlobalJobId.
func lineOf(waits []Wait, p *Polls, names *timeline.Names, first, last int) []stay {
	var line []stay
	for i := range waits {
		w := &waits[i]
		if from, to := max(p.from(w.First), first), min(p.upTo(w.Last), last); from <= to {
			line = append(line, stay{int32(i), from, to, w.Request.GPUMemory, math.Ceil(w.Request.GPUs),
				names.JobText(w.Job)})
		}
	}
	slices.SortFunc(line, func(a, b stay) int {
		if c := cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(b.gpus, a.gpus)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.job, b.job), cmp.Compare(a.first, b.first), cmp.Compare(a.wait, b.wait))
	})
	return line
}

const (
	sameTime = 48 // polls whose waits are in memory at the same time: 38,000 each
	atOnce   = 12 // how many of these one goroutine fills, for which it reads the line once
)

// visitor visits a poll: its slice, and its waits in the order in which they are served. The waits are valid until it
// returns. It is called in parallel, and changes nothing that visits share; then is called for one poll after another,
// with the time over which the poll's state lasts: zero at the last poll and before a gap.
type visitor func(slice int, waiting []int32) (then func(at interval))

// visitPolls finds unused GPUs and requests, and visits each poll from a first to a last one that has a slice.
func (a *answer) visitPolls(ctx context.Context, first, last int, visit visitor) error {
	if first > last {
		return nil
	}
	s, err := a.pollSlices(ctx, pool.Window{From: a.polls.Times[first], To: a.polls.Times[last]})
	if err != nil {
		return err
	}
	if a.unusedGPUs, err = findUnused(ctx, s, a.plan.Env.Lists, a.polls.Times[first:last+1]); err != nil {
		return err
	}
	a.texts, a.requests = a.names.Texts(), requestsOf(a.all)
	a.filter = aggregate.NewFilter(a.plan, a.texts) // GPUs can have new names
	// Fill and visit a bounded number of polls at the same time.
	line := lineOf(a.all, a.polls, a.names, first, last)
	var waiting [sameTime][]int32
	for base := first; base <= last; base += sameTime {
		var then [sameTime]func(interval)
		err := parallel.Chunks(ctx, min(sameTime, last+1-base), atOnce, func(_ *struct{}, from, end int) {
			for i := range line {
				for n := max(line[i].first-base, from); n < min(line[i].last+1-base, end); n++ {
					waiting[n] = append(waiting[n], line[i].wait)
				}
			}
			for n := from; n < end; n++ {
				if slice, there := s.At(a.polls.Times[base+n]); there {
					then[n] = visit(slice, waiting[n])
				}
				waiting[n] = waiting[n][:0]
			}
		})
		if err != nil {
			return fmt.Errorf("placing waiting jobs: %w", err)
		}
		for n, count := range then {
			if count != nil {
				count(a.polls.interval(base + n))
			}
		}
	}
	return nil
}

// firstFit is the first of ascending sizes of GPUs with at least the given memory; 0 means any.
func firstFit(sizes []float64, memory float64) int {
	if memory == 0 {
		return 0
	}
	return sort.SearchFloat64s(sizes, memory)
}

// place returns the waits whose jobs take free GPUs, the smallest that do. sizes are those of the free GPUs, ascending;
// they are overwritten. A job that does not get all it asks for gets none.
func (w *requests) place(sizes []float64, waiting []int32) (served []int32) {
	failed := int32(-1) // the request that was last in vain: often the next job has the same one
	for _, wait := range waiting {
		request := w.of[wait]
		if request == failed {
			continue
		}
		wants := &w.all[request]
		if first := firstFit(sizes, wants.GPUMemory); first+wants.n() <= len(sizes) {
			sizes = slices.Delete(sizes, first, first+wants.n())
			served = append(served, wait)
		} else {
			failed = request
		}
	}
	return served
}
