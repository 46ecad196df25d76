package demand

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// reason is why a GPU is unused, the number of a word in query.Reasons (methodology section 16).
type reason uint8

const (
	prevented     reason = iota
	drained              // no job may start
	other                // not free otherwise
	aJobFits             // a waiting job took it
	lacksCPUs            // a job's GPUs are there, its CPUs are not
	lacksMemory          // its GPUs and CPUs are there, its memory is not
	lacksGPUs            // too few GPUs of what a job asks for
	lacksMemOfGPU        // all ask for more GPU memory
	noDemand             // no job that did not fit; while jobs take their turns: free
	reasons              // their number; there are fewer obstacles
)

// unusedBy are the reasons why GPUs are unused, without regard to jobs: noDemand for free ones.
var unusedBy = map[counts.Use]reason{counts.UsePrevented: prevented, counts.UseDrained: drained,
	counts.UseOther: other, counts.UseFree: noDemand}

// unusedGPUs holds the unused GPUs of some slices, and the resources that their machines have left for jobs.
type unusedGPUs struct {
	slices *timeline.Slices
	gpus   []placedGPU
	unused [][]unusedGPU // by slice, in the order in which jobs take them
	room   func(slice int, machine string) timeline.Room
}

// unknownMemory is the size of GPUs of unknown memory, below all others: they serve only jobs that ask for none.
const unknownMemory = -1

type placedGPU struct {
	timeline.Place
	machine string
	id      string
	memory  float64 // in MiB, NaN if unknown
	size    float64 // the memory, or unknownMemory
}

type unusedGPU struct {
	gpu int32
	why reason
}

// findUnused finds the unused GPUs of the slices that contain some moments, excluded machines left out. In each slice
// they are sorted by machine, then the smallest first, then by id, which is the order in which a job takes them.
func findUnused(ctx context.Context, s *timeline.Slices, lists pool.Lists, moments []pool.Micros) (*unusedGPUs, error) {
	k := &unusedGPUs{slices: s, unused: make([][]unusedGPU, s.N())}
	k.room = k.latestRoom
	// Find the unused GPUs of the slices that contain the moments.
	wanted := make([]bool, s.N())
	for _, t := range moments {
		if slice, there := s.At(t); there {
			wanted[slice] = true
		}
	}
	type gpu struct {
		day *timeline.Day
		i   int
	}
	var numbers pool.Numbered[gpu]
	err := eachUnused(ctx, s, lists, func(day *timeline.Day, i, first, last int, why reason) {
		for slice := first; slice <= last; slice++ {
			if wanted[slice] {
				k.unused[slice] = append(k.unused[slice], unusedGPU{numbers.Number(gpu{day, i}), why})
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("finding unused GPUs: %w", err)
	}
	// Describe each GPU once, and sort those of each slice as jobs take them.
	names, order := s.View.Names.Texts(), make([]int32, len(numbers.All))
	placeOf := timeline.Counting(names, lists)
	for n, g := range numbers.All {
		place, memory := placeOf(g.day, g.i), g.day.Model(g.i).Memory
		_, id := s.View.Names.GPU(g.day.GPU(g.i))
		size := memory
		if math.IsNaN(size) {
			size = unknownMemory
		}
		k.gpus = append(k.gpus, placedGPU{place, names[place.Machine], names[id], memory, size})
		order[n] = int32(n)
	}
	slices.SortFunc(order, func(x, y int32) int {
		a, b := &k.gpus[x], &k.gpus[y]
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.size, b.size), cmp.Compare(a.id, b.id))
	})
	rank := make([]int, len(order))
	for i, n := range order {
		rank[n] = i
	}
	for _, unused := range k.unused {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("finding unused GPUs: %w", ctx.Err())
		}
		slices.SortFunc(unused, func(a, b unusedGPU) int { return cmp.Compare(rank[a.gpu], rank[b.gpu]) })
	}
	return k, nil
}

// free returns the sizes of the GPUs that are free in a slice, ascending.
func (k *unusedGPUs) free(slice int) (sizes []float64) {
	for _, u := range k.unused[slice] {
		if u.why == noDemand {
			sizes = append(sizes, k.gpus[u.gpu].size)
		}
	}
	slices.Sort(sizes)
	return sizes
}

// eachUnused calls visit with the unused GPUs of slices, excluded machines left out: each by its day and its number
// there, from a first to a last slice, and why it is unused without regard to jobs; noDemand if it is free.
func eachUnused(ctx context.Context, s *timeline.Slices, lists pool.Lists,
	visit func(day *timeline.Day, i, first, last int, why reason)) error {
	excluded := func(d *timeline.Day, i int) bool {
		return lists.ExclusionOf(s.View.Names.Text(d.Machines[d.MachineOf(i)].Name)) != nil
	}
	var pieces []timeline.Piece
	for n := range parallel.Until(ctx, len(s.Days)) {
		d := &s.Days[n]
		for i := range d.GPUs() {
			if excluded(d.Day, i) {
				continue
			}
			pieces = d.Pieces(i, nil, pieces[:0])
			for _, p := range pieces {
				use, _ := counts.UseOf([2]*timeline.Row{&d.Rows[p.Primary], &d.Rows[p.Backfill]})
				if why, unused := unusedBy[use]; unused {
					visit(d.Day, i, int(p.First), int(p.Last), why)
				}
			}
		}
	}
	return s.Shared(ctx, func(slice int, sides [2]timeline.SliceSide) {
		use, side := counts.UseOf([2]*timeline.Row{sides[pool.Primary].Row, sides[pool.Backfill].Row})
		at := &sides[side]
		if why, unused := unusedBy[use]; unused && !excluded(at.Day, at.I) {
			visit(at.Day, at.I, slice, slice, why)
		}
	})
}

// latestRoom returns what a machine has left for jobs in a slice, by the latest snapshot that tells; NaN is unknown.
func (k *unusedGPUs) latestRoom(slice int, machine string) timeline.Room {
	names := k.slices.View.Names
	for n := len(k.slices.Days) - 1; n >= 0; n-- {
		d := &k.slices.Days[n]
		from, to := d.In(slice)
		if from == to {
			continue
		}
		m, there := slices.BinarySearchFunc(d.Machines, machine, func(m timeline.Machine, name string) int {
			return strings.Compare(names.Text(m.Name), name)
		})
		if !there {
			continue
		}
		if room, told := d.Room(m, from, to); told {
			return room
		}
	}
	return timeline.Room{Cpus: float32(math.NaN()), Memory: float32(math.NaN())}
}

// enough returns an amount left for jobs; an unknown amount is unlimited.
func enough(amount float32) float64 {
	if amount != amount {
		return math.Inf(1)
	}
	return float64(amount)
}
