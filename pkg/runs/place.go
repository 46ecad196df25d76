package runs

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Place is the key under which a GPU of the pool is counted on a UTC day.
type Place struct {
	Machine   timeline.Symbol
	Device    timeline.Symbol // 0 = unknown
	Ownership pool.Ownership
	Memory    uint8 // index in pool.MemoryClasses
	Tier      int32 // index in pool.Lists.TierNames
}

// PlaceAt returns the place of a GPU on the UTC day of a snapshot.
func (o *Observed) PlaceAt(g *GPU, snapshot int32) Place {
	return g.places[o.View.DayAt(int(snapshot))]
}

// Category is the backfill category of the machine's owner.
func (p Place) Category() pool.Category { return pool.BackfillCategory(p.Ownership) }

// Filter chooses GPUs and runs.
type Filter struct {
	Machine, Device, Project, User func(string) bool
	Ownership                      func(pool.Ownership) bool
	Memory                         func(class uint8) bool // of an index in pool.MemoryClasses
}

// Chosen reports whether GPUs counted at a place, a row's projects and users pass a filter. It is for one goroutine.
type Chosen struct {
	Place         func(Place) bool
	Project, User func(timeline.Symbol) bool
}

// Choose applies a filter to a view's texts.
func Choose(f Filter, v *timeline.View) *Chosen {
	names := v.Names.Texts()
	machine, device := remembered(names, f.Machine), remembered(names, f.Device)
	return &Chosen{Project: remembered(names, f.Project), User: remembered(names, f.User), Place: func(p Place) bool {
		return f.Ownership(p.Ownership) && f.Memory(p.Memory) && machine(p.Machine) && device(p.Device)
	}}
}

// remembered is a test of texts by their symbols that remembers its results.
func remembered(names []string, test func(string) bool) func(timeline.Symbol) bool {
	known := make([]int8, len(names)) // 1: it passes; −1: it does not; 0: not tested yet
	return func(s timeline.Symbol) bool {
		if known[s] == 0 {
			if known[s] = -1; test(names[s]) {
				known[s] = 1
			}
		}
		return known[s] > 0
	}
}
