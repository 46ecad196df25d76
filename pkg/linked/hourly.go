package linked

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// Group is what hourly sums over runs or GPUs are told apart by, as the pool stores it.
type Group struct {
	Category  pool.Category
	Device    string
	Memory    string
	Ownership pool.Ownership
	Project   string
	User      string // of runs
}

// GroupOf returns the group of what is counted at a place. names are those of the view's symbols.
func GroupOf(c pool.Category, p runs.Place, project, user string, names []string) Group {
	return Group{Category: c, Device: names[p.Device], Memory: pool.MemoryClasses[p.Memory], Ownership: p.Ownership,
		Project: project, User: user}
}
