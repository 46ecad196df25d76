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
	GPUMemory   uint8 // 0: any; otherwise 1 + index in pool.MemoryClasses
	Cause       runs.Cause
	Evidence    runs.Evidence

	Device, Machine, Project, User, Schedd, PreventReason timeline.Symbol

	Tier string

	TakenOver bool            // by a user, who may have no name
	TakenBy   timeline.Symbol // whom
}

// PlaceKey returns the key of a GPU of the backfill pool at a place.
func PlaceKey(p runs.Place) Key {
	return Key{Category: p.Category(), Ownership: p.Ownership, OpenMachine: p.Ownership == pool.OpenCapacity,
		Memory: p.Memory, Tier: p.Tier, Device: p.Device, Machine: p.Machine}
}

// value is how keys hold the value of a grouping, and how answers show it. names are the names of symbols.
type value struct {
	copy func(to, from *Key)
	text func(k *Key, names []string) string
}

// values are the groupings of keys.
var values = map[string]value{
	"category":    of(func(k *Key) *pool.Category { return &k.Category }, pool.Category.String),
	"slots":       of(func(k *Key) *pool.Side { return &k.Side }, pool.Side.String),
	"ownership":   of(func(k *Key) *pool.Ownership { return &k.Ownership }, pool.Ownership.String),
	"machineType": of(func(k *Key) *bool { return &k.OpenMachine }, machineType),
	"memory":      of(func(k *Key) *uint8 { return &k.Memory }, func(n uint8) string { return pool.MemoryClasses[n] }),
	"tier":        of(func(k *Key) *string { return &k.Tier }, func(name string) string { return name }),
	"cause":       of(func(k *Key) *runs.Cause { return &k.Cause }, runs.Cause.String),
	"evidence":    of(func(k *Key) *runs.Evidence { return &k.Evidence }, runs.Evidence.String),
	"gpus":        of(func(k *Key) *uint8 { return &k.GPUs }, func(n uint8) string { return query.GPUCounts[n] }),
	"gpuMemory":   of(func(k *Key) *uint8 { return &k.GPUMemory }, gpuMemory),

	"device":        named(func(k *Key) *timeline.Symbol { return &k.Device }),
	"machine":       named(func(k *Key) *timeline.Symbol { return &k.Machine }),
	"project":       named(func(k *Key) *timeline.Symbol { return &k.Project }),
	"user":          named(func(k *Key) *timeline.Symbol { return &k.User }),
	"schedd":        named(func(k *Key) *timeline.Symbol { return &k.Schedd }),
	"preventReason": named(func(k *Key) *timeline.Symbol { return &k.PreventReason }),
	"takenOverBy": {
		func(to, from *Key) { to.TakenOver, to.TakenBy = from.TakenOver, from.TakenBy },
		func(k *Key, names []string) string { return names[k.TakenBy] },
	},
}

// of is a value with a text of its own.
func of[V any](in func(*Key) *V, text func(V) string) value {
	return value{
		func(to, from *Key) { *in(to) = *in(from) },
		func(k *Key, _ []string) string { return text(*in(k)) },
	}
}

// named is a value that is a symbol.
func named(in func(*Key) *timeline.Symbol) value {
	return value{
		func(to, from *Key) { *in(to) = *in(from) },
		func(k *Key, names []string) string { return names[*in(k)] },
	}
}

func machineType(open bool) string {
	if open {
		return pool.OpenCapacity.MachineType()
	}
	return pool.ResearcherOwned.MachineType()
}

func gpuMemory(n uint8) string {
	if n == 0 {
		return query.GPUMemories[0]
	}
	return pool.MemoryClasses[n-1]
}

// Within returns the values of some groupings; the others are zero.
func (k *Key) Within(groupings []string) (within Key) {
	for _, name := range groupings {
		if of, known := values[name]; known {
			of.copy(&within, k)
		}
	}
	return within
}

// Texts returns the values of groupings, as answers to a plan show them. names are the names of symbols.
func (k *Key) Texts(p *query.Plan, groupings, names []string) []string {
	texts := make([]string, len(groupings))
	for i, name := range groupings {
		if name != "takenOverBy" || k.TakenOver { // no user has no text, an unnamed user has Unknown
			texts[i] = p.Shown(name, values[name].text(k, names))
		}
	}
	return texts
}
