package counts

import (
	"iter"
	"slices"
	"unique"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Group is what counted GPU-slices are grouped by. Fields that are not grouped by are zero. Groups are compared and
// hashed often: they are 32 bytes without a gap and without a text.
type Group struct {
	Category                       pool.Category
	Side                           pool.Side
	Ownership                      pool.Ownership
	Memory                         uint8 // index of pool.MemoryClasses
	Device, Machine, Project, User timeline.Symbol
	PreventReason                  timeline.Symbol
	Tier                           Tier
}

// Tier is the name of a performance tier; the zero Tier is none.
type Tier struct{ name unique.Handle[string] }

// Name returns the name, "" of none.
func (t Tier) Name() string {
	if t == (Tier{}) {
		return ""
	}
	return t.name.Value()
}

// Texts returns the group's values by grouping, as tables show them.
func (g *Group) Texts(p *query.Plan, groupings, names []string) []string {
	texts := make([]string, len(groupings))
	for i, name := range groupings {
		switch name {
		case "category":
			texts[i] = g.Category.String()
		case "slots":
			texts[i] = g.Side.String()
		case "ownership":
			texts[i] = g.Ownership.String()
		case "memory":
			texts[i] = pool.MemoryClasses[g.Memory]
		case "tier":
			texts[i] = g.Tier.Name()
		case "preventReason":
			texts[i] = names[g.PreventReason]
		case "device":
			texts[i] = p.Shown(name, names[g.Device])
		case "machine":
			texts[i] = names[g.Machine]
		case "project":
			texts[i] = names[g.Project]
		case "user":
			texts[i] = p.Shown(name, names[g.User])
		}
	}
	return texts
}

// grouping says which fields of a Group are set.
type grouping struct{ category, side, ownership, memory, device, machine, project, user, tier, preventReason bool }

func groupingOf(names []string) grouping {
	has := func(name string) bool { return slices.Contains(names, name) }
	return grouping{
		has("category"), has("slots"), has("ownership"), has("memory"), has("device"), has("machine"), has("project"),
		has("user"),
		has("tier"), has("preventReason"),
	}
}

// Classifier puts rows into groups and applies filters. It remembers what it found out about texts; one goroutine uses
// it.
type Classifier struct {
	by       grouping
	byUser   bool // users matter: only claims are counted, those of several users in parts
	selected *query.Selection
	lists    pool.Lists
	names    []string

	machines        map[timeline.Symbol]machineClass
	devices         map[timeline.Symbol]bool
	projects, users map[timeline.Symbol]bool
}

type machineClass struct{ counts, chtcOwned bool }

// NewClassifier returns a classifier of GPUs and rows that groups nothing.
func NewClassifier(p *query.Plan, names []string) *Classifier {
	return newClassifier(p, grouping{}, names)
}

func newClassifier(p *query.Plan, by grouping, names []string) *Classifier {
	return &Classifier{
		by: by, byUser: by.user || !p.Select.Users.All(), selected: &p.Select, lists: p.Env.Lists, names: names,
		machines: map[timeline.Symbol]machineClass{}, devices: map[timeline.Symbol]bool{},
		projects: map[timeline.Symbol]bool{}, users: map[timeline.Symbol]bool{},
	}
}

// Machine reports whether the machine counts at all, and whether it is listed in chtc_owned.
func (c *Classifier) machine(name timeline.Symbol) machineClass {
	m, known := c.machines[name]
	if !known {
		text := c.names[name]
		m = machineClass{c.selected.Machines.Match(text) && c.lists.ExclusionOf(text) == nil, c.lists.CHTCOwned[text]}
		c.machines[name] = m
	}
	return m
}

func (c *Classifier) device(name timeline.Symbol) bool {
	return remember(c.devices, name, func() bool { return c.selected.MatchDevice(c.names[name]) })
}

func (c *Classifier) project(list timeline.Symbol) bool {
	return c.selected.Projects.All() || remember(c.projects, list,
		func() bool { return c.selected.MatchProjects(c.names[list]) })
}

func (c *Classifier) user(name timeline.Symbol) bool {
	return c.selected.Users.All() || remember(c.users, name,
		func() bool { return c.selected.MatchUser(c.names[name]) })
}

func remember(known map[timeline.Symbol]bool, s timeline.Symbol, find func() bool) bool {
	found, ok := known[s]
	if !ok {
		found = find()
		known[s] = found
	}
	return found
}

// GPUClass is what a day's GPU brings into its groups.
type GPUClass struct {
	Ownership       pool.Ownership // of the machine on this day
	chtcOwned       bool
	memory          uint8
	device, machine timeline.Symbol
	tier            Tier
}

// GPU classifies a day's i-th GPU; false: a filter or an exclusion leaves it out.
func (c *Classifier) GPU(d *timeline.Day, i int) (GPUClass, bool) {
	machine := &d.Machines()[d.MachineOf(i)]
	m := c.machine(machine.Name)
	if !m.counts {
		return GPUClass{}, false
	}
	ownership := machine.Ownership(m.chtcOwned)
	model := d.Model(i)
	if !c.selected.Ownerships[ownership] || !c.device(model.Device) {
		return GPUClass{}, false
	}
	class := GPUClass{Ownership: ownership, chtcOwned: m.chtcOwned}
	if c.by.memory {
		class.memory = uint8(slices.Index(pool.MemoryClasses, pool.MemoryClass(model.Memory)))
	}
	if c.by.tier {
		class.tier = Tier{unique.Make(c.lists.TierOf(c.names[model.Device]))}
	}
	if c.by.device {
		class.device = model.Device
	}
	if c.by.machine {
		class.machine = machine.Name
	}
	return class, true
}

// GPUs yields the day's GPUs that count, with their classes.
func (c *Classifier) GPUs(d *timeline.Day) iter.Seq2[int, GPUClass] {
	return func(yield func(int, GPUClass) bool) {
		var class GPUClass
		counts := false
		for i := range d.GPUs() { // those of one machine stand together
			if i == 0 || d.MachineOf(i) != d.MachineOf(i-1) || d.ModelIndex(i) != d.ModelIndex(i-1) {
				class, counts = c.GPU(d, i)
			}
			if counts && !yield(i, class) {
				return
			}
		}
	}
}

// CategoryOf is the category of a row of a side.
func CategoryOf(class GPUClass, side pool.Side, row *timeline.Row) pool.Category {
	if side == pool.Primary {
		return pool.PrimaryCategory(class.chtcOwned, row.Project != 0)
	}
	return pool.BackfillCategory(class.Ownership)
}

// Keeps reports whether the filters on results let a row pass.
func (c *Classifier) Keeps(class GPUClass, side pool.Side, row *timeline.Row) bool {
	if !c.selected.Categories[CategoryOf(class, side, row)] || !c.project(row.Project) {
		return false
	}
	return c.selected.Users.All() || row.State == pool.Claimed && c.user(row.User)
}

// group returns the group of a row of a side, held by a user; false: a filter leaves it out.
func (c *Classifier) group(gpu GPUClass, side pool.Side, row *timeline.Row, user timeline.Symbol) (Group, bool) {
	category := CategoryOf(gpu, side, row)
	if !c.selected.Categories[category] || !c.project(row.Project) || c.byUser && !c.user(user) {
		return Group{}, false
	}
	g := Group{Memory: gpu.memory, Tier: gpu.tier, Device: gpu.device, Machine: gpu.machine}
	if c.by.category {
		g.Category = category
	}
	if c.by.side {
		g.Side = side
	}
	if c.by.ownership {
		g.Ownership = gpu.Ownership
	}
	if c.by.project {
		g.Project = row.Project
	}
	if c.by.user {
		g.User = user
	}
	if c.by.preventReason {
		g.PreventReason = row.Reason
	}
	return g, true
}

// SideOf is the side of a group: groupings have the category or the side.
func (g *Group) SideOf(groupings []string) pool.Side {
	if slices.Contains(groupings, "category") {
		return g.Category.Side()
	}
	return g.Side
}
