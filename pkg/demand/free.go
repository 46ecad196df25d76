package demand

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
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

// Taken has the GPUs that waiting jobs could have taken at a poll.
type Taken struct {
	interval         // from the poll to the next one
	Waits    []int32 // by their numbers
	GPUs     []int32 // of each of them
}

// queue holds the waiting jobs of one request, in the order of their GlobalJobIds.
type queue struct {
	memory float64
	gpus   int
	waits  []int32  // all that ever ask so, in that order
	idle   []uint64 // a bit for each: whether it waits now
	n      int      // how many do
}

// TakeFree lets the waiting jobs take free GPUs at each of the polls that a window touches: those that ask for most
// memory first, then those that ask for most GPUs, then by GlobalJobId. Polls without a slice are left out.
func TakeFree(ctx context.Context, p *Polls, f *Free, waits []Wait, names *timeline.Names, w pool.Window) ([]Taken,
	error) {
	var all []Taken
	first, last := p.touched(w)
	err := eachPoll(ctx, p, waits, names, first, last, func(poll int, queues []queue) error {
		from, to, holds := p.interval(poll)
		if !holds {
			return nil
		}
		if counts, ok := f.At(from); ok {
			t := Taken{interval: interval{from, to}}
			t.take(f, slices.Clone(counts), queues)
			all = append(all, t)
		}
		return nil
	})
	return all, err
}

// eachPoll calls visit with the waiting jobs at each poll from a first to a last one.
func eachPoll(ctx context.Context, p *Polls, waits []Wait, names *timeline.Names, first, last int,
	visit func(poll int, queues []queue) error) error {
	queues, places := queuesOf(waits, names)
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
			at := places[moves[0].wait]
			queues[at.queue].set(at.place, moves[0].comes)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("placing waiting jobs: %w", err)
		}
		if err := visit(poll, queues); err != nil {
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

// place is the position of a wait.
type place struct{ queue, place int32 }

// queuesOf sorts waits into queues, those that are served first in front.
func queuesOf(waits []Wait, names *timeline.Names) ([]queue, []place) {
	type request struct {
		memory float64
		gpus   int
	}
	var requests pool.Numbered[request]
	var queues []queue
	for i := range waits {
		w := &waits[i]
		r := request{w.Request.GPUMemory, int(math.Ceil(w.Request.GPUs))}
		n := requests.Number(r)
		if len(requests.All) > len(queues) {
			queues = append(queues, queue{memory: r.memory, gpus: r.gpus})
		}
		queues[n].waits = append(queues[n].waits, int32(i))
	}
	slices.SortFunc(queues, func(a, b queue) int {
		return cmp.Or(cmp.Compare(b.memory, a.memory),
			cmp.Compare(b.gpus, a.gpus))
	})
	places := make([]place, len(waits))
	jobs := make([]string, len(waits))
	for i := range waits {
		jobs[i] = names.JobText(waits[i].Job)
	}
	for q := range queues {
		list := &queues[q]
		slices.SortFunc(list.waits, func(a, b int32) int {
			return cmp.Or(strings.Compare(jobs[a], jobs[b]), cmp.Compare(a, b))
		})
		list.idle = make([]uint64, (len(list.waits)+63)/64)
		for k, i := range list.waits {
			places[i] = place{int32(q), int32(k)}
		}
	}
	return queues, places
}

// set marks a job as waiting, or no more.
func (q *queue) set(place int32, waits bool) {
	bit := uint64(1) << (place % 64)
	if waits {
		q.idle[place/64] |= bit
		q.n++
	} else {
		q.idle[place/64] &^= bit
		q.n--
	}
}

// waiting yields the waits of the jobs that wait.
func (q *queue) waiting(yield func(wait int32) bool) {
	for word, idle := range q.idle {
		for ; idle != 0; idle &= idle - 1 {
			if !yield(q.waits[word*64+bits.TrailingZeros64(idle)]) {
				return
			}
		}
	}
}

// take lets the queues take free GPUs, the smallest that do first. A job that does not get all it asks for gets none.
func (t *Taken) take(f *Free, free []int32, queues []queue) {
	for i := range queues {
		q := &queues[i]
		if q.n == 0 {
			continue
		}
		size := f.firstFit(q.memory)
		served := min(q.n, f.Fit(free, q.memory)/q.gpus)
		left := int32(served * q.gpus)
		for ; left > 0; size++ {
			n := min(left, free[size])
			free[size] -= n
			left -= n
		}
		for wait := range q.waiting {
			if served == 0 {
				break
			}
			t.Waits, t.GPUs = append(t.Waits, wait), append(t.GPUs, int32(q.gpus))
			served--
		}
	}
}
