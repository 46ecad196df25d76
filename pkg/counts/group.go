package counts

import (
	"iter"
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Classifier puts rows into groups and applies filters. It caches its results for texts; it is for one goroutine.
type Classifier struct {
	by       []string // groupings
	byTier   bool
	byUser   bool // users matter: only claims are counted, those of several users in parts
	selected *query.Selection
	lists    pool.Lists
	names    []string

	machines        map[timeline.Symbol]machineClass
	devices         map[timeline.Symbol]bool
	projects, users map[timeline.Symbol]bool
}

type machineClass struct{ counts, chtcOwned bool }

// NewClassifier returns a classifier of GPUs and rows, which groups rows by the given groupings.
func NewClassifier(p *query.Plan, names []string, by ...string) *Classifier {
	return newClassifier(p, by, names)
}

func newClassifier(p *query.Plan, by, names []string) *Classifier {
	return &Classifier{
		by: by, byTier: slices.Contains(by, "tier"),
		byUser: slices.Contains(by, "user") || !p.Select.Users.All(), selected: &p.Select, lists: p.Env.Lists, names: names,
		machines: map[timeline.Symbol]machineClass{}, devices: map[timeline.Symbol]bool{},
		projects: map[timeline.Symbol]bool{}, users: map[timeline.Symbol]bool{},
	}
}

// Machine reports whether the machine counts at all, and whether it is listed in chtc_owned.
func (c *Classifier) machine(name timeline.Symbol) machineClass {
	m, known := c.machines[name]
	if !known {
		text := c.names[name]
		m = machineClass{c.selected.Machines.Match(text) && c.lists.ExclusionOf(text) == nil, c.lists.IsCHTCOwned(text)}
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

// GPUClass has the values that a day's GPU contributes to its groups.
type GPUClass struct {
	Ownership pool.Ownership // of the machine on this day
	chtcOwned bool
	key       aggregate.Key // as far as it is the same for all rows of the GPU
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
	memory := slices.Index(pool.MemoryClasses, pool.MemoryClass(model.Memory))
	if !c.selected.Ownerships[ownership] || !c.selected.Memories[memory] || !c.device(model.Device) {
		return GPUClass{}, false
	}
	key := aggregate.Key{Ownership: ownership, Device: model.Device, Machine: machine.Name,
		Memory: uint8(memory)}
	if c.byTier {
		key.Tier = pool.NameTier(c.lists.TierOf(c.names[model.Device]))
	}
	return GPUClass{ownership, m.chtcOwned, key.Within(c.by)}, true
}

// GPUs yields the day's GPUs that count, with their classes.
func (c *Classifier) GPUs(d *timeline.Day) iter.Seq2[int, GPUClass] {
	return func(yield func(int, GPUClass) bool) {
		var class GPUClass
		counts := false
		for i := range d.GPUs() { // those of one machine are adjacent
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

// Group returns the group of a row of a side, held by a user; false: a filter leaves it out.
func (c *Classifier) Group(gpu GPUClass, side pool.Side, row *timeline.Row, user timeline.Symbol) (aggregate.Key,
	bool) {
	return c.group(gpu, side, row, user)
}

func (c *Classifier) group(gpu GPUClass, side pool.Side, row *timeline.Row, user timeline.Symbol) (aggregate.Key,
	bool) {
	category := CategoryOf(gpu, side, row)
	if !c.selected.Categories[category] || !c.project(row.Project) || c.byUser && !c.user(user) {
		return aggregate.Key{}, false
	}
	key := gpu.key
	key.Category, key.Side, key.Project, key.User, key.PreventReason = category, side, row.Project, user, row.Reason
	return key.Within(c.by), true
}
