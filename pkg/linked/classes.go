package linked

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Class has all properties by which groups and filters distinguish GPUs. Because a pool has few classes, cached data of
// its GPUs refer to them by number, and each query evaluates each class once.
type Class struct {
	Place   runs.Place
	Project timeline.Symbol // of the row that gives the state
}

// Classes are the classes that were met.
type Classes = pool.Numbered[Class]
