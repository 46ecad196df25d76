package linked

import (
	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
)

// Group is the key of hourly sums over runs or GPUs, as the pool stores it.
type Group struct {
	Category  pool.Category
	Device    string
	Memory    string
	Ownership pool.Ownership
	Project   string
	User      string // of runs
}

// HourOf is a group's hour, by its number.
type HourOf struct {
	Group
	Hour int
}

// GroupOf returns the group of a key. names are the names of the view's symbols.
func GroupOf(k aggregate.Key, names []string) Group {
	return Group{Category: k.Category, Device: names[k.Device], Memory: pool.MemoryClasses[k.Memory],
		Ownership: k.Ownership, Project: names[k.Project], User: names[k.User]}
}
