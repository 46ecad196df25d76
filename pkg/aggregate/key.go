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

// Within returns the values of some groupings; the others are zero.
func (k *Key) Within(groupings []string) (within Key) {
	for _, name := range groupings {
		switch name {
		case "category":
			within.Category = k.Category
		case "slots":
			within.Side = k.Side
		case "ownership":
			within.Ownership = k.Ownership
		case "machineType":
			within.OpenMachine = k.OpenMachine
		case "memory":
			within.Memory = k.Memory
		case "tier":
			within.Tier = k.Tier
		case "device":
			within.Device = k.Device
		case "machine":
			within.Machine = k.Machine
		case "project":
			within.Project = k.Project
		case "user":
			within.User = k.User
		case "preventReason":
			within.PreventReason = k.PreventReason
		case "cause":
			within.Cause = k.Cause
		case "evidence":
			within.Evidence = k.Evidence
		case "takenOverBy":
			within.TakenOver, within.TakenBy = k.TakenOver, k.TakenBy
		case "schedd":
			within.Schedd = k.Schedd
		case "gpus":
			within.GPUs = k.GPUs
		case "gpuMemory":
			within.GPUMemory = k.GPUMemory
		}
	}
	return within
}

// Texts returns the values of groupings, as answers to a plan show them. names are the names of symbols.
func (k *Key) Texts(p *query.Plan, groupings, names []string) []string {
	texts := make([]string, len(groupings))
	for i, name := range groupings {
		if name != "takenOverBy" || k.TakenOver { // no user has no text, an unnamed user has Unknown
			texts[i] = p.Shown(name, k.text(p, name, names))
		}
	}
	return texts
}

func (k *Key) text(p *query.Plan, grouping string, names []string) string {
	switch grouping {
	case "category":
		return k.Category.String()
	case "slots":
		return k.Side.String()
	case "ownership":
		return k.Ownership.String()
	case "machineType":
		if k.OpenMachine {
			return pool.OpenCapacity.MachineType()
		}
		return pool.ResearcherOwned.MachineType()
	case "memory":
		return pool.MemoryClasses[k.Memory]
	case "tier":
		return p.Env.Lists.TierNames()[k.Tier]
	case "device":
		return names[k.Device]
	case "machine":
		return names[k.Machine]
	case "project":
		return names[k.Project]
	case "user":
		return names[k.User]
	case "preventReason":
		return names[k.PreventReason]
	case "cause":
		return k.Cause.String()
	case "evidence":
		return k.Evidence.String()
	case "takenOverBy":
		return names[k.TakenBy]
	case "schedd":
		return names[k.Schedd]
	case "gpus":
		return query.GPUCounts[k.GPUs]
	}
	if k.GPUMemory == 0 { // gpuMemory
		return query.GPUMemories[0]
	}
	return pool.MemoryClasses[k.GPUMemory-1]
}
