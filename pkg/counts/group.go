package counts

import (
	"iter"
	"slices"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Classifier puts rows into groups and applies filters. It is safe for concurrent use.
type Classifier struct {
	by         []query.Grouping
	byUser     bool             // users matter: only claims are counted, those of several users in parts
	gpus, rows aggregate.Filter // choose GPUs before the slice rules, and rows after them
	lists      pool.Lists
	names      []string
	projects   *queues.Projects // the projects of jobs; nil: jobs do not matter
}

// NewClassifier returns a classifier of GPUs and rows, which groups rows by the given groupings.
func NewClassifier(p *query.Plan, names []string, by ...string) *Classifier {
	c := &Classifier{by: query.GroupingsOf(by), lists: p.Env.Lists, names: names}
	c.byUser = slices.Contains(c.by, query.ByUser) || !p.Select.All(query.ByUser)
	c.gpus, c.rows = aggregate.NewFilter(p, names).Split(query.Grouping.OfGPU)
	return c
}

// GPUClass has the values that a day's GPU contributes to its groups.
type GPUClass struct {
	Ownership pool.Ownership // whose the machine is on this day
	key       aggregate.Key  // as far as it is the same for all rows of the GPU
}

// GPU classifies a GPU at a place; false: a filter or an exclusion leaves it out.
func (c *Classifier) GPU(place timeline.Place) (GPUClass, bool) {
	key := aggregate.KeyOf(place)
	return GPUClass{place.Ownership, key.Within(c.by)},
		c.gpus.Keeps(key) && c.lists.ExclusionOf(c.names[place.Machine]) == nil
}

// GPUs yields the day's GPUs that count, with their classes.
func (c *Classifier) GPUs(d *timeline.Day) iter.Seq2[int, GPUClass] {
	return func(yield func(int, GPUClass) bool) {
		var class GPUClass
		var before timeline.Place
		counts := false
		for i, place := range d.Counted(c.names, c.lists) { // those of one machine are adjacent
			if i == 0 || place != before {
				before = place
				class, counts = c.GPU(place)
			}
			if counts && !yield(i, class) {
				return
			}
		}
	}
}

// Keeps reports whether the filters on results let a row pass.
func (c *Classifier) Keeps(class *GPUClass, side pool.Side, row *timeline.Row) bool {
	_, keeps := c.KeyOf(class, side, row, timeline.Holder{User: row.User})
	return keeps && (!c.byUser || row.State == pool.Claimed)
}

// KeyOf returns the key of a row of a side, held by a user, whose job has projects if they matter; false: a filter
// leaves it out.
func (c *Classifier) KeyOf(gpu *GPUClass, side pool.Side, row *timeline.Row, h timeline.Holder) (aggregate.Key, bool) {
	key := gpu.key
	key.SetRow(gpu.Ownership, side, row.Project, h.User)
	key[query.ByPreventReason] = uint32(row.Reason)
	if c.projects != nil {
		list, how := c.projects.Of(h.Job, c.names[h.User])
		if key[query.ByAttribution] = uint32(how); how != queues.ByNone {
			key[query.ByJobProject] = uint32(list) + 1
		}
	}
	return key.Within(c.by), c.rows.Keeps(key)
}

// Use is how a GPU is used, by its rows on both sides at one time. State timelines show these numbers.
type Use int8

// How a GPU is used.
const (
	UseNone Use = iota - 1 // no row
	UseFree
	UsePrimary  // claimed by a primary slot
	UseBackfill // claimed by a backfill slot
	UseDrained
	UsePrevented
	UseOther
	Uses int = iota - 1 // their number, without none
)

func (u Use) String() string {
	return [...]string{"Free", "Claimed", "Backfill", "Drained", "Prevented", "Other"}[u]
}

// UseOf returns how a GPU is used, the first that fits, and the side whose row says so.
func UseOf(rows [2]*timeline.Row) (Use, pool.Side) {
	side := pool.Primary
	if primary := rows[pool.Primary].State; primary == pool.None ||
		primary != pool.Claimed && rows[pool.Backfill].State == pool.Claimed {
		side = pool.Backfill
	}
	switch row := rows[side]; {
	case row.State == pool.None:
		return UseNone, side
	case row.State == pool.Claimed && side == pool.Primary:
		return UsePrimary, side
	case row.State == pool.Claimed:
		return UseBackfill, side
	case row.Prevented:
		return UsePrevented, side
	case row.State == pool.Drained:
		return UseDrained, side
	case row.State == pool.Unclaimed:
		return UseFree, side
	}
	return UseOther, side
}
