package linked

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Class is all that groups and filters tell GPUs apart by. A pool has few of them, so that what is kept of its GPUs
// refers to them by number, and each query asks once about each.
type Class struct {
	Place   runs.Place
	Project timeline.Symbol // of the row that gives the state
}

// Classes are the classes that were met.
type Classes = pool.Numbered[Class]
