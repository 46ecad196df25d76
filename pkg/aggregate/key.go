package aggregate

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// Key is the key of a group: the value of each grouping, as a symbol or a small number, so that keys compare and hash
// quickly. Groupings that do not matter are zero.
type Key [parts]uint32

// Parts of keys.
const (
	Category    = iota // pool.Category
	Side               // pool.Side, of the grouping slots
	Ownership          // pool.Ownership
	MachineType        // 1: open capacity
	Memory             // index in pool.MemoryClasses
	GPUs               // index in query.GPUCounts
	GPUMemory          // index in query.GPUMemories
	OwnGPUs            // index in query.OwnGPUs
	UsedMemory         // index in query.UsedMemories
	Attribution        // queues.Attribution: how the project of the job is known
	Tier               // index in pool.Lists.TierNames
	Cause              // runs.Cause
	Evidence           // runs.Evidence
	Device             // symbol, as the following ones
	Machine
	Project
	User
	Schedd
	PreventReason
	JobProject  // symbol + 1 of the list of projects of the job; 0: it is not known
	TakenOverBy // symbol + 1 of the user who took over, who may have no name
	parts       // their number
)

// PlaceKey returns the key of a GPU of the backfill pool at a place.
func PlaceKey(p runs.Place) Key {
	k := Key{Category: uint32(p.Category()), Ownership: uint32(p.Ownership), Memory: uint32(p.Memory),
		Tier: uint32(p.Tier), Device: uint32(p.Device), Machine: uint32(p.Machine)}
	if p.Ownership == pool.OpenCapacity {
		k[MachineType] = 1
	}
	return k
}

// text is the text of a value, as answers to a plan show it; names are those of symbols.
type text func(value uint32, p *query.Plan, names []string) string

// groupings are the parts of keys by grouping, with the texts of their values.
var groupings = map[string]struct {
	part int
	text text
}{
	"category":      {Category, constant(pool.Category.String)},
	"slots":         {Side, constant(pool.Side.String)},
	"ownership":     {Ownership, constant(pool.Ownership.String)},
	"machineType":   {MachineType, indexed(pool.ResearcherOwned.MachineType(), pool.OpenCapacity.MachineType())},
	"memory":        {Memory, indexed(pool.MemoryClasses...)},
	"gpus":          {GPUs, indexed(query.GPUCounts...)},
	"gpuMemory":     {GPUMemory, indexed(query.GPUMemories...)},
	"ownGpus":       {OwnGPUs, indexed(query.OwnGPUs...)},
	"usedMemory":    {UsedMemory, indexed(query.UsedMemories...)},
	"attribution":   {Attribution, func(uint32, *query.Plan, []string) string { return "" }},
	"jobProject":    {JobProject, jobProject},
	"cause":         {Cause, constant(runs.Cause.String)},
	"evidence":      {Evidence, constant(runs.Evidence.String)},
	"device":        {Device, symbol},
	"machine":       {Machine, symbol},
	"project":       {Project, symbol},
	"user":          {User, symbol},
	"schedd":        {Schedd, symbol},
	"preventReason": {PreventReason, symbol},
	"takenOverBy":   {TakenOverBy, func(v uint32, _ *query.Plan, names []string) string { return names[v-1] }},
	"tier":          {Tier, func(v uint32, p *query.Plan, _ []string) string { return p.Env.Lists.TierNames()[v] }},
}

func constant[T ~uint8](name func(T) string) text {
	return func(v uint32, _ *query.Plan, _ []string) string { return name(T(v)) }
}

func indexed(texts ...string) text {
	return func(v uint32, _ *query.Plan, _ []string) string { return texts[v] }
}

func jobProject(v uint32, _ *query.Plan, names []string) string {
	if v == 0 {
		return query.Unknown
	}
	return names[v-1]
}

func symbol(v uint32, _ *query.Plan, names []string) string { return names[v] }

// PartsOf returns the parts of keys that groupings name. Groupings that are not of keys do not count.
func PartsOf(by []string) (parts []int) {
	for _, name := range by {
		if g, known := groupings[name]; known {
			parts = append(parts, g.part)
		}
	}
	return parts
}

// Within returns the values of some parts; the others are zero.
func (k *Key) Within(parts []int) (within Key) {
	for _, part := range parts {
		within[part] = k[part]
	}
	return within
}

// Texts returns the values of groupings, as answers to a plan show them; "" of one that is not of keys. names are the
// names of symbols.
func (k *Key) Texts(p *query.Plan, by, names []string) []string {
	texts := make([]string, len(by))
	for i, name := range by {
		// no user has no text, an unnamed user has Unknown
		if g, known := groupings[name]; known && (g.part != TakenOverBy || k[TakenOverBy] != 0) {
			texts[i] = p.Shown(name, g.text(k[g.part], p, names))
		}
	}
	return texts
}
