package aggregate

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Key is the key of a group: a value of each grouping, as a symbol or a small number, so that keys compare and hash
// quickly. Groupings that do not matter are zero.
type Key struct {
	Category    pool.Category
	Side        pool.Side
	Ownership   pool.Ownership
	OpenMachine bool  // of the grouping machineType: the machine is open capacity
	Memory      uint8 // index in pool.MemoryClasses
	GPUs        uint8 // index in query.GPUCounts
	GPUMemory   uint8 // index in query.GPUMemories
	Tier        int32 // index in pool.Lists.TierNames
	Cause       runs.Cause
	Evidence    runs.Evidence

	Device, Machine, Project, User, Schedd, PreventReason timeline.Symbol

	TakenOver bool            // by a user, who may have no name
	TakenBy   timeline.Symbol // whom
}

// PlaceKey returns the key of a GPU of the backfill pool at a place.
func PlaceKey(p runs.Place) Key {
	return Key{Category: p.Category(), Ownership: p.Ownership, OpenMachine: p.Ownership == pool.OpenCapacity,
		Memory: p.Memory, Tier: p.Tier, Device: p.Device, Machine: p.Machine}
}

// part is the part of a key that a grouping is about.
type part struct {
	copy func(to, from *Key)
	text func(k *Key, p *query.Plan, names []string) string // names are those of symbols
}

// parts are the parts of keys by grouping.
var parts = map[string]part{
	"category":      partOf(func(k *Key) *pool.Category { return &k.Category }, pool.Category.String),
	"slots":         partOf(func(k *Key) *pool.Side { return &k.Side }, pool.Side.String),
	"ownership":     partOf(func(k *Key) *pool.Ownership { return &k.Ownership }, pool.Ownership.String),
	"machineType":   partOf(func(k *Key) *bool { return &k.OpenMachine }, machineType),
	"memory":        indexed(func(k *Key) *uint8 { return &k.Memory }, pool.MemoryClasses),
	"cause":         partOf(func(k *Key) *runs.Cause { return &k.Cause }, runs.Cause.String),
	"evidence":      partOf(func(k *Key) *runs.Evidence { return &k.Evidence }, runs.Evidence.String),
	"gpus":          indexed(func(k *Key) *uint8 { return &k.GPUs }, query.GPUCounts),
	"gpuMemory":     indexed(func(k *Key) *uint8 { return &k.GPUMemory }, query.GPUMemories),
	"device":        symbol(func(k *Key) *timeline.Symbol { return &k.Device }),
	"machine":       symbol(func(k *Key) *timeline.Symbol { return &k.Machine }),
	"project":       symbol(func(k *Key) *timeline.Symbol { return &k.Project }),
	"user":          symbol(func(k *Key) *timeline.Symbol { return &k.User }),
	"schedd":        symbol(func(k *Key) *timeline.Symbol { return &k.Schedd }),
	"preventReason": symbol(func(k *Key) *timeline.Symbol { return &k.PreventReason }),
	"takenOverBy": {func(to, from *Key) { to.TakenOver, to.TakenBy = from.TakenOver, from.TakenBy },
		func(k *Key, _ *query.Plan, names []string) string { return names[k.TakenBy] }},
	"tier": {func(to, from *Key) { to.Tier = from.Tier },
		func(k *Key, p *query.Plan, _ []string) string { return p.Env.Lists.TierNames()[k.Tier] }},
}

// partOf is the part that is a field.
func partOf[T any](field func(*Key) *T, text func(T) string) part {
	return part{func(to, from *Key) { *field(to) = *field(from) },
		func(k *Key, _ *query.Plan, _ []string) string { return text(*field(k)) }}
}

// indexed is the part that is an index in a list of texts.
func indexed(field func(*Key) *uint8, texts []string) part {
	return partOf(field, func(i uint8) string { return texts[i] })
}

// symbol is the part that is a symbol.
func symbol(field func(*Key) *timeline.Symbol) part {
	return part{func(to, from *Key) { *field(to) = *field(from) },
		func(k *Key, _ *query.Plan, names []string) string { return names[*field(k)] }}
}

func machineType(open bool) string {
	if open {
		return pool.OpenCapacity.MachineType()
	}
	return pool.ResearcherOwned.MachineType()
}

// Within returns the values of some groupings; the others are zero. Groupings that are not of keys do not count.
func (k *Key) Within(groupings []string) (within Key) {
	for _, name := range groupings {
		if part, known := parts[name]; known {
			part.copy(&within, k)
		}
	}
	return within
}

// Texts returns the values of groupings, as answers to a plan show them; "" of one that is not of keys. names are the
// names of symbols.
func (k *Key) Texts(p *query.Plan, groupings, names []string) []string {
	texts := make([]string, len(groupings))
	for i, name := range groupings {
		// no user has no text, an unnamed user has Unknown
		if part, known := parts[name]; known && (name != "takenOverBy" || k.TakenOver) {
			texts[i] = p.Shown(name, part.text(k, p, names))
		}
	}
	return texts
}
