package query

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
)

// Texts of groups that are not values of their own; they come last.
const (
	Unknown = "Unknown" // without a value
	Other   = "Other"   // the rest
)

// last are the texts that come last, in this order.
var last = []string{Unknown, Other}

// OwnershipNames are the ownerships in their order.
var OwnershipNames = each(pool.Ownerships, func(i int) string { return pool.Ownership(i).String() })

// fixed are the groupings whose values have an order of their own.
var fixed = map[string][]string{
	"category":    each(pool.Categories, func(i int) string { return pool.Category(i).String() }),
	"slots":       sides,
	"memory":      pool.MemoryClasses,
	"gpus":        GPUCounts,
	"gpuMemory":   GPUMemories,
	"ownership":   OwnershipNames,
	"machineType": {"Priority", "Shared"},
	"obstacle":    Obstacles,
	"ownGpus":     OwnGPUs,
	"usedMemory":  UsedMemories,
	"reason":      Reasons,
}

// Why jobs wait, and why GPUs are unused, in the order in which the reasons apply (methodology section 16).
var (
	Obstacles = []string{"gpus", "gpuMemory", "shape", "cpus", "memory", "fits"}
	Reasons   = []string{"prevented", "drained", "other", "fits", "cpus", "memory", "shape", "gpuMemory", "noDemand"}
)

// OwnGPUs is what the GPUs with priority for a job's projects did when its wait began (methodology section 18).
var OwnGPUs = []string{"free", "backfill", "busy", "none", "unknown"}

// UsedMemories are the classes of the GPU memory that a run used at most, in their order (methodology section 20).
var UsedMemories = append(each(len(usedGB), func(i int) string { return fmt.Sprintf("≤ %d GB", usedGB[i]) }),
	fmt.Sprintf("> %d GB", usedGB[len(usedGB)-1]), Unknown)

// usedGB are the bounds of these classes in GiB.
var usedGB = []int{4, 8, 16, 24, 40, 48, 80}

// UsedMemory returns the class of a peak in MiB, as an index in UsedMemories; a negative one is not known.
func UsedMemory(mib float64) int {
	if mib < 0 {
		return len(UsedMemories) - 1
	}
	class, _ := slices.BinarySearchFunc(usedGB, mib/1024, func(bound int, gib float64) int {
		return cmp.Compare(float64(bound), gib)
	})
	return class
}

var sides = []string{pool.Primary.String(), pool.Backfill.String()}

// each returns the texts of the numbers 0 … n−1.
func each(n int, text func(i int) string) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = text(i)
	}
	return texts
}

// ShownAs are the words for values of groupings that do not speak for themselves.
var ShownAs = map[string]map[string]string{
	"obstacle": {"gpus": "Too few GPUs are left", "gpuMemory": "Too few with the GPU memory",
		"shape": "Too few on one machine", "cpus": "Too few CPUs next to the GPUs",
		"memory": "Too little memory next to the GPUs", "fits": "Would fit: the reason is not in the data"},
	"ownGpus": {"free": "Enough were free", "backfill": "Backfill held them", "busy": "Busy", "none": "No own GPUs",
		"unknown": "Not known"},
	"reason": {"prevented": "No jobs wanted", "drained": "Drained", "other": "Another state",
		"fits": "A waiting job would fit", "cpus": "CPUs are used up", "memory": "Memory is used up",
		"shape": "Too few on the machine", "gpuMemory": "Too little GPU memory", "noDemand": "No demand"},
}

// ShownAs returns how values of a grouping are shown that are stored otherwise, by value.
func (p *Plan) ShownAs(grouping string) map[string]string {
	if grouping == "device" {
		return p.Env.Lists.DeviceNames
	}
	return ShownAs[grouping]
}

// CompareValues orders two values of a grouping: categories, slots, memories, ownerships in their own order, everything
// else bytewise; Unknown, then Other, last.
func CompareValues(grouping, a, b string) int {
	if a == b {
		return 0
	}
	order := fixed[grouping] // nil: all have the index −1
	return cmp.Or(cmp.Compare(slices.Index(last, a), slices.Index(last, b)),
		cmp.Compare(slices.Index(order, a), slices.Index(order, b)), cmp.Compare(a, b))
}

// CompareGroups orders two groups by the groupings in turn.
func CompareGroups(groupings, a, b []string) int {
	for i, g := range groupings {
		if c := CompareValues(g, a[i], b[i]); c != 0 {
			return c
		}
	}
	return 0
}
