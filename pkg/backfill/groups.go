package backfill

import (
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
)

// groups are a query's groups of classes, in the order in which they were met. Only those exist of which something was
// met.
type groups struct {
	grouping *grouping
	chosen   *runs.Chosen
	buckets  int // that a group takes; 0 = none
	classes  []linked.Class
	known    []int32 // of each class: 1 + its group's number; 0 = not met yet, outside = does not pass
	keys     pool.Numbered[group]
}

const outside = -1

func (g *grouping) among(c *linked.Classes, chosen *runs.Chosen, buckets int) *groups {
	return &groups{grouping: g, chosen: chosen, buckets: buckets, classes: c.All, known: make([]int32, len(c.All))}
}

// number returns the number of a class' group, −1 if the filter leaves it out. An error says that there are too many
// groups.
func (g *groups) number(class int32) (int32, error) {
	switch n := g.known[class]; n {
	case 0:
		n, err := g.of(g.classes[class])
		if g.known[class] = n + 1; n < 0 {
			g.known[class] = outside
		}
		return n, err
	case outside:
		return -1, nil
	default:
		return n - 1, nil
	}
}

// of returns the number of the group of a class, as number does.
func (g *groups) of(c linked.Class) (int32, error) {
	if !g.chosen.Place(c.Place) || !g.chosen.Project(c.Project) {
		return -1, nil
	}
	k := g.grouping.within(c.Place, c.Project)
	if n, ok := g.keys.Find(k); ok {
		return n, nil
	}
	if err := query.Hold(len(g.keys.All)+1, g.buckets); err != nil {
		return -1, err
	}
	return g.keys.Number(k), nil
}
