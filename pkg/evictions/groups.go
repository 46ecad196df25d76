package evictions

import (
	"slices"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// group is what runs are counted under; what is not asked for is zero.
type group struct {
	place    runs.Place
	user     timeline.Symbol
	cause    runs.Cause
	evidence runs.Evidence
}

// grouping forms groups.
type grouping struct {
	by    []string
	names []string
	shown func(column, stored string) string // as answers show it
}

// byEviction reports whether the grouping knows evictions only: what did not end so has no cause, and its evidence says
// of something else (methodology section 8).
func (g *grouping) byEviction() bool { return ByEviction(g.by) }

// ByEviction reports whether groupings know evictions only.
func ByEviction(groupings []string) bool {
	return slices.Contains(groupings, "cause") || slices.Contains(groupings, "evidence")
}

// texts are a group's values.
func (g *grouping) texts(k group) []string {
	values := make([]string, len(g.by))
	for i, name := range g.by {
		switch name {
		case "user":
			values[i] = g.shown(name, g.names[k.user])
		case "cause":
			values[i] = k.cause.String()
		case "evidence":
			values[i] = k.evidence.String()
		default:
			values[i] = g.shown(name, k.place.Text(name, g.names))
		}
	}
	return values
}

// groups are a query's groups of runs, in the order in which they were met.
type groups struct {
	grouping
	chosen  *runs.Chosen
	classes []linked.Class
	known   []answered // about each class
	keys    pool.Numbered[group]

	byUser, byCause, byEvidence bool
}

// answered is what is known of a class.
type answered struct {
	place  runs.Place
	number int32 // of place among the groups, 1 more
	passes bool
	asked  bool
}

func (g grouping) among(c *linked.Classes, chosen *runs.Chosen) *groups {
	return &groups{grouping: g, chosen: chosen, classes: c.All, known: make([]answered, len(c.All)),
		byUser: slices.Contains(g.by, "user"), byCause: slices.Contains(g.by, "cause"),
		byEvidence: slices.Contains(g.by, "evidence")}
}

// passes reports whether the filter lets a run pass.
func (g *groups) passes(r *row) bool {
	k := &g.known[r.class]
	if !k.asked {
		c := &g.classes[r.class]
		passes := g.chosen.Place(c.Place) && g.chosen.Project(c.Project)
		*k = answered{place: c.Place.Within(g.by), passes: passes, asked: true}
	}
	return k.passes && g.chosen.User(r.User)
}

// number returns the number of the group of a run that passes. whole leaves cause and evidence out: the group whose
// GPU-hours a rate counts over.
func (g *groups) number(r *row, whole bool) int32 {
	known := &g.known[r.class]
	plain := !g.byUser && (whole || !g.byCause && !g.byEvidence)
	if plain && known.number > 0 {
		return known.number - 1
	}
	k := group{place: known.place}
	if g.byUser {
		k.user = r.User
	}
	if g.byCause && !whole {
		k.cause = r.Cause
	}
	if g.byEvidence && !whole {
		k.evidence = r.Evidence
	}
	n := g.keys.Number(k)
	if plain {
		known.number = n + 1
	}
	return n
}
