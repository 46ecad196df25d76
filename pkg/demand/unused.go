package demand

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

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
)

// stock holds the unused GPUs of some slices, and the resources that their machines have left for jobs.
type stock struct {
	slices *timeline.Slices
	names  *timeline.Names
	gpus   []stockGPU
	units  map[int][]unit            // by slice, in the order of gpus
	places []map[timeline.Symbol]int // of each of the slices' days: the numbers of machines
	room   func(slice int, machine timeline.Symbol) timeline.Room
}

// stockGPU is a GPU on a day.
type stockGPU struct {
	day       int // in Slices.Days
	i         int // of the day's GPUs
	machine   string
	symbol    timeline.Symbol // of the machine
	id        string
	model     timeline.Model
	size      float64 // memory in MiB, or unknownMemory
	ownership pool.Ownership
}

// unit is a GPU that is unused in a slice.
type unit struct {
	gpu int32
	why reason
}

// newStock finds the unused GPUs of some slices, excluded machines left out. In each slice they are sorted by machine,
// then the smallest first, then by id, which is the order in which a job takes them.
func newStock(ctx context.Context, s *timeline.Slices, lists pool.Lists, wanted map[int]bool) (*stock, error) {
	k := &stock{slices: s, names: s.View.Names, units: map[int][]unit{},
		places: make([]map[timeline.Symbol]int, len(s.Days))}
	k.room = k.latestRoom
	numbers := make([]map[int]int32, len(s.Days)) // in gpus, by the number in the day
	for n := range s.Days {
		k.addDay(n, lists)
		numbers[n] = map[int]int32{}
	}
	slices.SortFunc(k.gpus, func(a, b stockGPU) int {
		return cmp.Or(cmp.Compare(a.machine, b.machine), cmp.Compare(a.size, b.size), cmp.Compare(a.id, b.id),
			cmp.Compare(a.day, b.day))
	})
	var pieces []timeline.Piece
	for n := range k.gpus {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("finding unused GPUs: %w", err)
		}
		g := &k.gpus[n]
		numbers[g.day][g.i] = int32(n)
		d := &s.Days[g.day]
		pieces = d.Pieces(g.i, pieces[:0])
		for _, p := range pieces {
			if why, is := unusedBy(d.Row(p.Primary), d.Row(p.Backfill)); is {
				for slice := int(p.First); slice <= int(p.Last); slice++ {
					if wanted[slice] {
						k.units[slice] = append(k.units[slice], unit{int32(n), why})
					}
				}
			}
		}
	}
	return k, k.addShared(ctx, numbers, wanted)
}

// addDay adds the GPUs of a day.
func (k *stock) addDay(n int, lists pool.Lists) {
	d := &k.slices.Days[n]
	machines := d.Machines()
	k.places[n] = make(map[timeline.Symbol]int, len(machines))
	owned, counts := make([]pool.Ownership, len(machines)), make([]bool, len(machines))
	for m := range machines {
		name := k.names.Text(machines[m].Name)
		k.places[n][machines[m].Name] = m
		owned[m] = machines[m].Ownership(lists.IsCHTCOwned(name))
		counts[m] = lists.ExclusionOf(name) == nil
	}
	for i := range d.GPUs() {
		if m := d.MachineOf(i); counts[m] {
			model := d.Model(i)
			_, id := k.names.GPU(d.GPU(i))
			k.gpus = append(k.gpus, stockGPU{day: n, i: i, machine: k.names.Text(machines[m].Name), symbol: machines[m].Name,
				id: k.names.Text(id), model: model, size: sizeOf(model.Memory), ownership: owned[m]})
		}
	}
}

// addShared adds the units of slices that two days share.
func (k *stock) addShared(ctx context.Context, numbers []map[int]int32, wanted map[int]bool) error {
	dayOf := map[*timeline.Day]int{}
	for n := range k.slices.Days {
		dayOf[k.slices.Days[n].Day] = n
	}
	touched := map[int]bool{}
	err := k.slices.Shared(ctx, func(slice int, primary, backfill timeline.SharedSide) {
		at := &primary
		if primary.Row == 0 {
			at = &backfill
		}
		n, counts := numbers[dayOf[at.Day]][at.I]
		if why, is := unusedBy(rowOf(&primary), rowOf(&backfill)); is && counts && wanted[slice] {
			k.units[slice] = append(k.units[slice], unit{n, why})
			touched[slice] = true
		}
	})
	if err != nil {
		return fmt.Errorf("finding unused GPUs: %w", err)
	}
	for slice := range touched {
		slices.SortFunc(k.units[slice], func(a, b unit) int { return cmp.Compare(a.gpu, b.gpu) })
	}
	return nil
}

// unusedBy reports whether a GPU with these rows of a slice is unused, and why without regard to jobs; noDemand if it
// is free.
func unusedBy(primary, backfill *timeline.Row) (why reason, unused bool) {
	if primary.State == pool.Claimed || backfill.State == pool.Claimed {
		return 0, false
	}
	row := primary
	if primary.State == pool.None {
		row = backfill
	}
	switch {
	case row.Prevented:
		return prevented, true
	case row.State == pool.Drained:
		return drained, true
	case row.State != pool.Unclaimed:
		return other, true
	}
	return noDemand, true
}

// latestRoom returns the resources that a machine has left for jobs in a slice, by the latest snapshot that has them.
// Unknown amounts are NaN.
func (k *stock) latestRoom(slice int, machine timeline.Symbol) timeline.Room {
	for n := len(k.slices.Days) - 1; n >= 0; n-- {
		d := &k.slices.Days[n]
		from, to := d.In(slice)
		m, there := k.places[n][machine]
		if from == to || !there {
			continue
		}
		if room, told := d.Room(m, from, to); told {
			return room
		}
	}
	return timeline.Room{Cpus: float32(math.NaN()), Memory: float32(math.NaN())}
}

// enough returns an amount left for jobs, where an unknown amount is unlimited.
func enough(amount float32) float64 {
	if amount != amount {
		return math.Inf(1)
	}
	return float64(amount)
}
