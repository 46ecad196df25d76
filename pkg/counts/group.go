package counts

import (
	"iter"
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Classifier puts rows into groups and applies filters. It is safe for concurrent use.
type Classifier struct {
	by       []int // parts of keys that groupings name
	byUser   bool  // users matter: only claims are counted, those of several users in parts
	byTier   bool
	selected *query.Selection
	lists    pool.Lists
	names    []string
	projects *queues.Projects // of jobs; nil: jobs do not matter
}

// NewClassifier returns a classifier of GPUs and rows, which groups rows by the given groupings.
func NewClassifier(p *query.Plan, names []string, by ...string) *Classifier {
	return &Classifier{aggregate.PartsOf(by), slices.Contains(by, "user") || !p.Select.Users.All(),
		slices.Contains(by, "tier"), &p.Select, p.Env.Lists, names, nil}
}

// GPUClass has the values that a day's GPU contributes to its groups.
type GPUClass struct {
	Ownership pool.Ownership // of the machine on this day
	chtcOwned bool
	key       aggregate.Key // as far as it is the same for all rows of the GPU
}

// GPU classifies a day's i-th GPU; false: a filter or an exclusion leaves it out.
func (c *Classifier) GPU(d *timeline.Day, i int) (GPUClass, bool) {
	machine, model := &d.Machines()[d.MachineOf(i)], d.Model(i)
	name, device := c.names[machine.Name], c.names[model.Device]
	chtcOwned := c.lists.IsCHTCOwned(name)
	ownership := machine.Ownership(chtcOwned)
	memory := slices.Index(pool.MemoryClasses, pool.MemoryClass(model.Memory))
	if !c.selected.Ownerships[ownership] || !c.selected.Memories[memory] || !c.selected.Machines.Match(name) ||
		!c.selected.MatchDevice(device) || c.lists.ExclusionOf(name) != nil {
		return GPUClass{}, false
	}
	key := aggregate.Key{aggregate.Ownership: uint32(ownership), aggregate.Device: uint32(model.Device),
		aggregate.Machine: uint32(machine.Name), aggregate.Memory: uint32(memory)}
	if c.byTier {
		key[aggregate.Tier] = uint32(c.lists.TierNumber(device))
	}
	return GPUClass{ownership, chtcOwned, key.Within(c.by)}, true
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
func CategoryOf(class *GPUClass, side pool.Side, row *timeline.Row) pool.Category {
	if side == pool.Primary {
		return pool.PrimaryCategory(class.chtcOwned, row.Project != 0)
	}
	return pool.BackfillCategory(class.Ownership)
}

// Keeps reports whether the filters on results let a row pass.
func (c *Classifier) Keeps(class *GPUClass, side pool.Side, row *timeline.Row) bool {
	return c.passes(CategoryOf(class, side, row), row, row.User) && (!c.byUser || row.State == pool.Claimed)
}

func (c *Classifier) passes(category pool.Category, row *timeline.Row, user timeline.Symbol) bool {
	return c.selected.Categories[category] && c.selected.MatchProjects(c.names[row.Project]) &&
		(!c.byUser || c.selected.MatchUser(c.names[user]))
}

// Group returns the group of a row of a side, held by a user; false: a filter leaves it out.
func (c *Classifier) Group(gpu *GPUClass, side pool.Side, row *timeline.Row, user timeline.Symbol) (aggregate.Key,
	bool) {
	category := CategoryOf(gpu, side, row)
	if !c.passes(category, row, user) {
		return aggregate.Key{}, false
	}
	key := c.keyOf(gpu, category, side, row, user)
	return key.Within(c.by), true
}

// group returns the group of a row as Group does, with the projects of the holder's job if they matter.
func (c *Classifier) group(gpu *GPUClass, side pool.Side, row *timeline.Row, h timeline.Holder) (aggregate.Key, bool) {
	if c.projects == nil {
		return c.Group(gpu, side, row, h.User)
	}
	category := CategoryOf(gpu, side, row)
	if !c.passes(category, row, h.User) {
		return aggregate.Key{}, false
	}
	list, how := c.projects.Of(h.Job, c.names[h.User])
	if !c.selected.MatchJobProjects(c.names[list], how != queues.ByNone) {
		return aggregate.Key{}, false
	}
	key := c.keyOf(gpu, category, side, row, h.User)
	key[aggregate.Attribution] = uint32(how)
	if how != queues.ByNone {
		key[aggregate.JobProject] = uint32(list) + 1
	}
	return key.Within(c.by), true
}

// keyOf is the whole key of a row.
func (c *Classifier) keyOf(gpu *GPUClass, category pool.Category, side pool.Side, row *timeline.Row,
	user timeline.Symbol) aggregate.Key {
	key := gpu.key
	key[aggregate.Category], key[aggregate.Side] = uint32(category), uint32(side)
	key[aggregate.Project], key[aggregate.User] = uint32(row.Project), uint32(user)
	key[aggregate.PreventReason] = uint32(row.Reason)
	return key
}
