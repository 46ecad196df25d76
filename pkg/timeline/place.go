package timeline

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// Place is what a GPU is counted under on a UTC day (methodology sections 2 and 5).
type Place struct {
	Machine   Symbol
	Device    Symbol // 0 = unknown
	Ownership pool.Ownership
	Memory    uint8 // index in pool.MemoryClasses
	Tier      int32 // index in pool.Lists.TierNames
}

// Category is the category of a backfill slot of the GPU.
func (p Place) Category() pool.Category { return pool.CategoryOf(pool.Backfill, p.Ownership, false) }

// Counted returns the place of each of the day's GPUs. names are the texts of symbols.
func (d *Day) Counted(names []string, lists pool.Lists) []Place {
	machines, models := make([]Place, len(d.machines)), make([]Place, len(d.models))
	for i := range d.machines {
		m := &d.machines[i]
		machines[i] = Place{Machine: m.Name, Ownership: m.Ownership(lists.IsCHTCOwned(names[m.Name]))}
	}
	tiers := lists.TierNames()
	for i, m := range d.models {
		models[i] = Place{Device: m.Device, Tier: int32(slices.Index(tiers, lists.TierOf(names[m.Device]))),
			Memory: uint8(slices.Index(pool.MemoryClasses, pool.MemoryClass(m.Memory)))}
	}
	places := make([]Place, len(d.gpus))
	for i, g := range d.gpus {
		places[i] = machines[g.Machine]
		places[i].Device, places[i].Memory, places[i].Tier = models[g.Model].Device, models[g.Model].Memory,
			models[g.Model].Tier
	}
	return places
}

// Counting returns the places of single GPUs, for callers that stay with a day or two.
func Counting(names []string, lists pool.Lists) func(d *Day, i int) Place {
	kept := map[*Day][]Place{}
	return func(d *Day, i int) Place {
		places, known := kept[d]
		if !known {
			if len(kept) == 2 {
				clear(kept)
			}
			places = d.Counted(names, lists)
			kept[d] = places
		}
		return places[i]
	}
}
