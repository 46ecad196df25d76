package runs

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Place is what a GPU of the pool is counted under on a UTC day.
type Place struct {
	Machine   timeline.Symbol
	Device    timeline.Symbol // 0 = unknown
	Ownership pool.Ownership
}

// PlaceAt is where a GPU is counted on the UTC day of a snapshot.
func (o *Observed) PlaceAt(g *GPU, snapshot int32) Place { return g.places[o.dayOf[snapshot]] }

// Category is the backfill category of the machine's owner.
func (p Place) Category() pool.Category { return pool.BackfillCategory(p.Ownership) }

// Text is the value of a grouping: category, device, ownership, machineType or machine.
func (p Place) Text(grouping string, names []string) string {
	switch grouping {
	case "category":
		return p.Category().String()
	case "device":
		return query.Shown(grouping, names[p.Device])
	case "ownership":
		return p.Ownership.String()
	case "machineType":
		return p.Ownership.MachineType()
	}
	return names[p.Machine]
}

// Chosen tells which places, projects and users a filter lets pass. It remembers what it was asked.
type Chosen struct {
	selection *query.Selection
	names     []string
	machines, devices,
	projects, users map[timeline.Symbol]bool
}

// Choose compiles a filter for a view.
func Choose(s *query.Selection, v *timeline.View) *Chosen {
	return &Chosen{s, v.Names.Texts(), map[timeline.Symbol]bool{}, map[timeline.Symbol]bool{}, map[timeline.Symbol]bool{}, map[timeline.Symbol]bool{}}
}

func remember(known map[timeline.Symbol]bool, s timeline.Symbol, tell func() bool) bool {
	yes, ok := known[s]
	if !ok {
		yes = tell()
		known[s] = yes
	}
	return yes
}

// Place tells whether GPUs counted there pass.
func (c *Chosen) Place(p Place) bool {
	return c.selection.Ownerships[p.Ownership] && c.selection.Categories[p.Category()] &&
		remember(c.machines, p.Machine, func() bool { return c.selection.Machines.Match(c.names[p.Machine]) }) &&
		remember(c.devices, p.Device, func() bool { return c.selection.MatchDevice(c.names[p.Device]) })
}

// Project tells whether a row's projects pass.
func (c *Chosen) Project(s timeline.Symbol) bool {
	return remember(c.projects, s, func() bool { return c.selection.MatchProjects(c.names[s]) })
}

// User tells whether a user passes.
func (c *Chosen) User(s timeline.Symbol) bool {
	return remember(c.users, s, func() bool { return c.selection.Users.Match(query.Shown("user", c.names[s])) })
}
