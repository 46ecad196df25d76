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
func (o *Observed) PlaceAt(g *GPU, snapshot int32) Place { return g.places[o.dayOf[snapshot]] }

// Category is the backfill category of the machine's owner.
func (p Place) Category() pool.Category { return pool.BackfillCategory(p.Ownership) }

// Filter chooses GPUs and runs.
type Filter struct {
	Machine, Device, Project, User func(string) bool
	Ownership                      func(pool.Ownership) bool
	Memory                         func(class uint8) bool // of an index in pool.MemoryClasses
}

// Chosen reports whether texts pass a filter. It remembers its answers, and is for one goroutine.
type Chosen struct {
	filter                             Filter
	names                              []string
	machines, devices, projects, users []answer
}

// answer is a filter's result for a text.
type answer uint8

const (
	notAsked answer = iota
	passes
	fails
)

// Choose applies a filter to a view's texts.
func Choose(f Filter, v *timeline.View) *Chosen {
	names := v.Names.Texts()
	none := func() []answer { return make([]answer, len(names)) }
	return &Chosen{f, names, none(), none(), none(), none()}
}

func (c *Chosen) remember(known []answer, s timeline.Symbol, test func(string) bool) bool {
	if known[s] == notAsked {
		if known[s] = fails; test(c.names[s]) {
			known[s] = passes
		}
	}
	return known[s] == passes
}

// Place reports whether GPUs counted there pass.
func (c *Chosen) Place(p Place) bool {
	return c.filter.Ownership(p.Ownership) && c.filter.Memory(p.Memory) &&
		c.remember(c.machines, p.Machine, c.filter.Machine) &&
		c.remember(c.devices, p.Device, c.filter.Device)
}

// Project reports whether a row's projects pass.
func (c *Chosen) Project(s timeline.Symbol) bool { return c.remember(c.projects, s, c.filter.Project) }

// User reports whether a user passes.
func (c *Chosen) User(s timeline.Symbol) bool { return c.remember(c.users, s, c.filter.User) }
