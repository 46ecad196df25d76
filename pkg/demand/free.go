package demand

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// unknownMemory is the size of GPUs of unknown memory: below all others, so that they serve only jobs that ask for
// none.
const unknownMemory = -1

// Free counts the GPUs that are free in each slice (methodology section 5), by the size of their memory.
type Free struct {
	slices *timeline.Slices
	Sizes  []float64 // MiB, ascending
	counts []int32   // by slice, then by size
}

// NewFree counts the free GPUs of a range of time, excluded machines left out.
func NewFree(ctx context.Context, s *timeline.Slices, lists pool.Lists) (*Free, error) {
	f := &Free{slices: s}
	numbers := f.findSizes(s)
	width := len(f.Sizes)
	changes := make([]int32, (s.N()+1)*width) // where free GPUs begin and end
	err := eachUnused(ctx, s, lists, func(day *timeline.Day, i, first, last int, why reason) {
		if why == noDemand {
			size := numbers[sizeOf(day.Model(i).Memory)]
			changes[first*width+size]++
			changes[(last+1)*width+size]--
		}
	})
	if err != nil {
		return nil, fmt.Errorf("counting free GPUs: %w", err)
	}
	for i := width; i < len(changes); i++ {
		changes[i] += changes[i-width]
	}
	f.counts = changes[:s.N()*width]
	return f, nil
}

// findSizes lists the sizes of all GPUs, and returns the number of each.
func (f *Free) findSizes(s *timeline.Slices) map[float64]int {
	numbers := map[float64]int{}
	for k := range s.Days {
		for _, m := range s.Days[k].Models() {
			numbers[sizeOf(m.Memory)] = 0
		}
	}
	f.Sizes = slices.Sorted(maps.Keys(numbers))
	for i, size := range f.Sizes {
		numbers[size] = i
	}
	return numbers
}

func sizeOf(memory float64) float64 {
	if math.IsNaN(memory) {
		return unknownMemory
	}
	return memory
}

// At returns the free GPUs of each size in the slice that holds t; false: there is none.
func (f *Free) At(t pool.Micros) ([]int32, bool) {
	i, ok := f.slices.At(t)
	if !ok {
		return nil, false
	}
	return f.counts[i*len(f.Sizes) : (i+1)*len(f.Sizes)], true
}

// Fit counts those of the given free GPUs that have at least the given memory.
func (f *Free) Fit(counts []int32, memory float64) (n int) {
	for i := f.firstFit(memory); i < len(counts); i++ {
		n += int(counts[i])
	}
	return n
}

// firstFit is the first size with at least the given memory; 0 means any.
func (f *Free) firstFit(memory float64) int {
	if memory == 0 {
		return 0
	}
	i, _ := slices.BinarySearch(f.Sizes, memory)
	return i
}

// queue holds the jobs of one request that wait now, in the order of their GlobalJobIds.
type queue struct {
	request
	waits []int32 // by their numbers
}

// request is what matters to taking GPUs.
type request struct {
	memory float64
	gpus   int
}

// eachPoll calls visit with the waiting jobs at each poll from a first to a last one.
func eachPoll(ctx context.Context, p *Polls, waits []Wait, names *timeline.Names, first, last int,
	visit func(poll int, queues []queue) error) error {
	l := newLine(waits, names)
	var moves []move
	for i := range waits {
		if waits[i].AdOnly() {
			continue
		}
		from, to := max(p.from(waits[i].First), first), p.upTo(waits[i].Last)
		if from <= to && from <= last {
			moves = append(moves, move{from, int32(i), true}, move{to + 1, int32(i), false})
		}
	}
	slices.SortFunc(moves, func(a, b move) int { return cmp.Or(cmp.Compare(a.poll, b.poll), cmp.Compare(a.wait, b.wait)) })
	for poll := first; poll <= last; poll++ {
		for ; len(moves) > 0 && moves[0].poll == poll; moves = moves[1:] {
			l.move(moves[0].wait, moves[0].comes)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("placing waiting jobs: %w", err)
		}
		if err := visit(poll, l.queues); err != nil {
			return err
		}
	}
	return nil
}

// move is a job that comes into its queue at a poll, or leaves it.
type move struct {
	poll  int
	wait  int32
	comes bool
}

// line is the jobs that wait now.
type line struct {
	queues []queue // those that are served first in front
	of     []int32 // the queue of each wait
	rank   []int32 // of each wait by its GlobalJobId
}

// newLine is the line of waits before any job waits.
func newLine(waits []Wait, names *timeline.Names) *line {
	l := &line{of: make([]int32, len(waits)), rank: make([]int32, len(waits))}
	requestOf := func(w *Wait) request { return request{w.Request.GPUMemory, int(math.Ceil(w.Request.GPUs))} }
	numbers := map[request]int32{}
	jobs, byJob := make([]string, len(waits)), make([]int32, len(waits))
	for i := range waits {
		numbers[requestOf(&waits[i])] = 0
		jobs[i], byJob[i] = names.JobText(waits[i].Job), int32(i)
	}
	for _, r := range slices.SortedFunc(maps.Keys(numbers), func(a, b request) int {
		return cmp.Or(cmp.Compare(b.memory, a.memory), cmp.Compare(b.gpus, a.gpus))
	}) {
		numbers[r] = int32(len(l.queues))
		l.queues = append(l.queues, queue{request: r})
	}
	slices.SortFunc(byJob, func(a, b int32) int { return cmp.Or(strings.Compare(jobs[a], jobs[b]), cmp.Compare(a, b)) })
	for rank, i := range byJob {
		l.of[i], l.rank[i] = numbers[requestOf(&waits[i])], int32(rank)
	}
	return l
}

// move lets a job come into its queue, or leave it.
func (l *line) move(wait int32, comes bool) {
	q := &l.queues[l.of[wait]]
	at, _ := slices.BinarySearchFunc(q.waits, wait, func(a, b int32) int { return cmp.Compare(l.rank[a], l.rank[b]) })
	if comes {
		q.waits = slices.Insert(q.waits, at, wait)
	} else {
		q.waits = slices.Delete(q.waits, at, at+1)
	}
}

// take lets the jobs of queues take free GPUs, the smallest that do first: those that ask for most memory first, then
// those that ask for most GPUs, then by GlobalJobId. A job that does not get all it asks for gets none. serve is called
// for each that does.
func (f *Free) take(free []int32, queues []queue, serve func(wait int32, gpus int)) {
	for i := range queues {
		q := &queues[i]
		if len(q.waits) == 0 {
			continue
		}
		size := f.firstFit(q.memory)
		served := min(len(q.waits), f.Fit(free, q.memory)/q.gpus)
		left := int32(served * q.gpus)
		for ; left > 0; size++ {
			n := min(left, free[size])
			free[size] -= n
			left -= n
		}
		for _, wait := range q.waits[:served] {
			serve(wait, q.gpus)
		}
	}
}
