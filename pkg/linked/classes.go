package linked

import (
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Class is all that groups and filters tell GPUs apart by. A pool has few of them, so that what is kept of its GPUs
// refers to them by number, and each query asks once about each.
type Class struct {
	Place   runs.Place
	Project timeline.Symbol // of the row that gives the state
}

// Classes numbers the classes that are met.
type Classes struct {
	All     []Class
	numbers map[Class]int32
}

// NewClasses has none.
func NewClasses() *Classes { return &Classes{numbers: map[Class]int32{}} }

// Number returns the number of a class in All.
func (c *Classes) Number(k Class) int32 {
	n, ok := c.numbers[k]
	if !ok {
		n = int32(len(c.All))
		c.All = append(c.All, k)
		c.numbers[k] = n
	}
	return n
}
