// Package allocation answers who holds the GPUs and what is free (methodology sections 4 and 5).
package allocation

import (
	"context"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Class is what a GPU-slice is counted as. A GPU can count as a state on both sides, and as Free or Prevented beside.
type Class uint8

// Classes of methodology section 5.
const (
	Claimed Class = iota
	Unclaimed
	Drained
	OtherState
	Free
	Prevented
	classes int = iota
)

var classOf = [...]Class{pool.Other: OtherState, pool.Drained: Drained, pool.Unclaimed: Unclaimed, pool.Claimed: Claimed}

// Count holds GPU-slices by group, class and bucket.
type Count struct {
	Groups  []Group // in no order
	Slices  []int   // N of each bucket
	Begin   []pool.Micros
	Buckets query.Buckets

	index map[Group]int
	sums  [][classes][]float64 // by group; nil for classes that were not asked for
	wants []Class
	cells int
}

// Sum returns the GPU-slices of a group in a bucket.
func (c *Count) Sum(group int, class Class, bucket int) float64 { return c.sums[group][class][bucket] }

// maxCells bounds the memory of one answer: 30 million numbers, 240 MB.
const maxCells = 30_000_000

// NewCount counts the GPU-slices of a window, grouped by the names of groupings (of allocation and `user`), by bucket.
// Where users matter, because they are grouped by or filtered, only claims are counted. Groups without a GPU that counts
// do not exist.
func NewCount(ctx context.Context, p *query.Plan, s *timeline.Slices, groupings []string, wants ...Class) (*Count, error) {
	from := p.Window.From
	if s.N() > 0 {
		from = min(from, s.Begin[0])
	}
	buckets, err := p.Buckets(from)
	if err != nil {
		return nil, err
	}
	c := &Count{Slices: make([]int, buckets.Len()), Begin: s.Begin, Buckets: buckets, index: map[Group]int{}, wants: wants}
	bucketOf := make([]int32, s.N())
	b := 0
	for i, begin := range s.Begin {
		for begin >= buckets.Starts[b+1] {
			b++
		}
		bucketOf[i] = int32(b)
		c.Slices[b]++
	}

	names := s.View.Names.Texts()
	by := groupingOf(groupings)
	parts := make([]*part, len(s.Days))
	workers := min(runtime.GOMAXPROCS(0), len(s.Days))
	group, inner := errgroup.WithContext(ctx)
	for w := range workers {
		group.Go(func() error {
			classifier := newClassifier(p, by, names)
			for i := w * len(s.Days) / workers; i < (w+1)*len(s.Days)/workers; i++ {
				if err := inner.Err(); err != nil {
					return err
				}
				parts[i] = countDay(classifier, &s.Days[i], bucketOf)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := c.add(part); err != nil {
			return nil, err
		}
	}
	return c, c.addShared(ctx, newClassifier(p, by, names), s, bucketOf)
}

// group returns a group's number.
func (c *Count) group(g Group) (int, error) {
	n, known := c.index[g]
	if known {
		return n, nil
	}
	var sums [classes][]float64
	for _, class := range c.wants {
		sums[class] = make([]float64, len(c.Slices))
	}
	if c.cells += len(c.wants) * len(c.Slices); c.cells > maxCells {
		return 0, pool.BadQuery("more than %d groups over %d buckets are too many: group by less, filter, or choose a longer bucket", len(c.Groups), len(c.Slices))
	}
	n = len(c.Groups)
	c.index[g], c.Groups, c.sums = n, append(c.Groups, g), append(c.sums, sums)
	return n, nil
}

// add adds a day's part.
func (c *Count) add(p *part) error {
	for g := range p.groups {
		n, err := c.group(p.groups[g])
		if err != nil {
			return err
		}
		for _, class := range c.wants {
			from := (g*p.classes + int(class)) * p.buckets
			for b, sum := range p.sums[from : from+p.buckets] {
				if sum != 0 {
					c.sums[n][class][p.first+b] += sum
				}
			}
		}
	}
	return nil
}

// addShared adds the slices that two days share.
func (c *Count) addShared(ctx context.Context, classify *classifier, s *timeline.Slices, bucketOf []int32) error {
	var failure error
	err := s.Shared(ctx, func(slice int, primary, backfill timeline.SharedSide) {
		add := func(side pool.Side, at *timeline.SharedSide, class Class) {
			gpu, counts := classify.gpu(at.Day, at.I)
			if !counts || failure != nil {
				return
			}
			row := at.Day.Row(at.Row)
			users := at.Users
			if len(users) == 0 || !classify.byUser {
				users = []timeline.Symbol{row.User}
			}
			for _, u := range users {
				group, counts := classify.group(gpu, side, row, u)
				if !counts {
					continue
				}
				n, err := c.group(group)
				if err != nil {
					failure = err
					return
				}
				if sums := c.sums[n][class]; sums != nil {
					sums[bucketOf[slice]] += 1 / float64(len(users))
				}
			}
		}
		tally(primary.State(), backfill.State(), prevented(&primary), prevented(&backfill), classify.byUser, func(side pool.Side, class Class) {
			if side == pool.Primary {
				add(side, &primary, class)
			} else {
				add(side, &backfill, class)
			}
		})
	})
	if err != nil {
		return err
	}
	return failure
}

func prevented(s *timeline.SharedSide) bool { return s.Row != 0 && s.Day.Row(s.Row).Prevented }

// tally says what a GPU-slice is counted as: methodology sections 4 (backfill is None where primary is Claimed) and 5.
func tally(primary, backfill pool.State, preventedPrimary, preventedBackfill, claimsOnly bool, add func(pool.Side, Class)) {
	if primary != pool.None && (primary == pool.Claimed || !claimsOnly) {
		add(pool.Primary, classOf[primary])
	}
	if backfill != pool.None && (backfill == pool.Claimed || !claimsOnly) {
		add(pool.Backfill, classOf[backfill])
	}
	if claimsOnly || primary == pool.Claimed || backfill == pool.Claimed {
		return
	}
	side, state, isPrevented := pool.Primary, primary, preventedPrimary
	if primary == pool.None {
		side, state, isPrevented = pool.Backfill, backfill, preventedBackfill
	}
	switch {
	case isPrevented:
		add(side, Prevented)
	case state == pool.Unclaimed:
		add(side, Free)
	}
}

// part is the count of one day without the slices that it shares with a neighbour.
type part struct {
	groups  []Group
	classes int       // all, or 1: only Claimed
	first   int       // the first bucket
	buckets int       // their number
	sums    []float64 // of group, class, bucket
}

// dayCount is a day being counted.
type dayCount struct {
	part
	classify *classifier
	day      *timeline.DaySlices
	rows     []timeline.Row
	index    map[Group]int32

	gpus       []gpuClass // distinct
	rowClass   []int32    // of each row; nil: whether it has a project
	rowClasses int
	cells      []int32 // groups by side, GPU class and row class; unset, or no group

	bucketOf []int32   // of each slice, from the first one of the day
	starts   []int32   // of each bucket its first slice, from the first one of the day
	whole    []float64 // changes of the number that fills whole buckets, like sums

	gpu  gpuClass
	base [2]int32 // where the GPU's cells begin
}

const (
	unset   = -1
	noGroup = -2
)

func countDay(classify *classifier, d *timeline.DaySlices, bucketOf []int32) *part {
	if d.First > d.Last {
		return &part{}
	}
	c := &dayCount{classify: classify, day: d, rows: d.Rows(), index: map[Group]int32{}}
	c.classes = classes
	if classify.byUser {
		c.classes = 1
	}
	c.first = int(bucketOf[d.First])
	c.buckets = int(bucketOf[d.Last]) - c.first + 1
	c.bucketOf = make([]int32, d.Last-d.First+1)
	c.starts = make([]int32, c.buckets+1)
	for i := range c.bucketOf {
		b := bucketOf[d.First+i] - int32(c.first)
		c.bucketOf[i] = b
		c.starts[b+1] = int32(i + 1)
	}
	for b := range c.buckets { // a bucket without a slice begins where the one before ended
		c.starts[b+1] = max(c.starts[b+1], c.starts[b])
	}
	classOfGPU := c.classifyGPUs()
	c.classifyRows()
	c.cells = slices.Repeat([]int32{unset}, 2*len(c.gpus)*c.rowClasses)

	visit := c.visit
	for i, class := range classOfGPU {
		if class < 0 {
			continue
		}
		c.gpu = c.gpus[class]
		c.base[pool.Primary] = class * int32(c.rowClasses)
		c.base[pool.Backfill] = (int32(len(c.gpus)) + class) * int32(c.rowClasses)
		d.Walk(i, visit)
	}
	c.finish()
	return &c.part
}

// classifyGPUs returns each GPU's class, -1 for those left out. GPUs of one machine stand together.
func (c *dayCount) classifyGPUs() []int32 {
	of := make([]int32, c.day.GPUs())
	index := map[gpuClass]int32{}
	for i := range of {
		if i > 0 && c.day.MachineOf(i) == c.day.MachineOf(i-1) && c.day.ModelIndex(i) == c.day.ModelIndex(i-1) {
			of[i] = of[i-1]
			continue
		}
		class, counts := c.classify.gpu(c.day.Day, i)
		if !counts {
			of[i] = -1
			continue
		}
		n, known := index[class]
		if !known {
			n = int32(len(c.gpus))
			index[class], c.gpus = n, append(c.gpus, class)
		}
		of[i] = n
	}
	return of
}

// classifyRows numbers what rows bring into their groups.
func (c *dayCount) classifyRows() {
	byProject := c.classify.by.project || !c.classify.selected.Projects.All()
	if !byProject && !c.classify.byUser {
		c.rowClasses = 2
		return
	}
	type key struct {
		hasProject    bool
		project, user timeline.Symbol
	}
	index := map[key]int32{}
	c.rowClass = make([]int32, len(c.rows))
	for i := range c.rows {
		k := key{hasProject: c.rows[i].Project != 0}
		if byProject {
			k.project = c.rows[i].Project
		}
		if c.classify.byUser {
			k.user = c.rows[i].User
		}
		n, known := index[k]
		if !known {
			n = int32(len(index))
			index[k] = n
		}
		c.rowClass[i] = n
	}
	c.rowClasses = len(index)
}

func (c *dayCount) visit(p *timeline.Piece) {
	primary, backfill := &c.rows[p.Primary], &c.rows[p.Backfill]
	if c.classify.byUser {
		if primary.State == pool.Claimed {
			c.claim(pool.Primary, p.Primary, p)
		}
		if backfill.State == pool.Claimed {
			c.claim(pool.Backfill, p.Backfill, p)
		}
		return
	}
	tally(primary.State, backfill.State, primary.Prevented, backfill.Prevented, false, func(side pool.Side, class Class) {
		row := p.Primary
		if side == pool.Backfill {
			row = p.Backfill
		}
		if g := c.group(side, row); g >= 0 {
			c.add(g, class, p.First, p.Last)
		}
	})
}

// claim counts a claimed side by its users; several share it.
func (c *dayCount) claim(side pool.Side, row uint32, p *timeline.Piece) {
	users := p.Users[side]
	if users == nil {
		if g := c.group(side, row); g >= 0 {
			c.add(g, Claimed, p.First, p.Last)
		}
		return
	}
	for _, u := range users {
		g := c.find(side, row, u)
		if g < 0 {
			continue
		}
		sums := c.sums[int(g)*c.classes*c.buckets:]
		for slice := p.First; slice <= p.Last; slice++ {
			sums[c.bucketOf[slice-c.day.First]] += 1 / float64(len(users))
		}
	}
}

// group returns the group of a row, held by its own user, or noGroup.
func (c *dayCount) group(side pool.Side, row uint32) int32 {
	class := int32(0)
	if c.rowClass != nil {
		class = c.rowClass[row]
	} else if c.rows[row].Project != 0 {
		class = 1
	}
	cell := &c.cells[c.base[side]+class]
	if *cell == unset {
		*cell = c.find(side, row, c.rows[row].User)
	}
	return *cell
}

func (c *dayCount) find(side pool.Side, row uint32, user timeline.Symbol) int32 {
	g, counts := c.classify.group(c.gpu, side, &c.rows[row], user)
	if !counts {
		return noGroup
	}
	n, known := c.index[g]
	if !known {
		n = int32(len(c.groups))
		c.index[g], c.groups = n, append(c.groups, g)
		c.sums = append(c.sums, make([]float64, c.classes*c.buckets)...)
		c.whole = append(c.whole, make([]float64, c.classes*c.buckets)...)
	}
	return n
}

// add counts a GPU in the slices from first to last: in part in the buckets at the ends, and as a change of the number
// that fills the buckets in between.
func (c *dayCount) add(group int32, class Class, first, last int) {
	first, last = first-c.day.First, last-c.day.First
	at := (int(group)*c.classes + int(class)) * c.buckets
	a, b := int(c.bucketOf[first]), int(c.bucketOf[last])
	if a == b {
		c.sums[at+a] += float64(last - first + 1)
		return
	}
	c.sums[at+a] += float64(c.starts[a+1] - int32(first))
	c.sums[at+b] += float64(int32(last) - c.starts[b] + 1)
	c.whole[at+a+1]++
	c.whole[at+b]--
}

// finish adds what fills whole buckets.
func (c *dayCount) finish() {
	if c.buckets < 3 {
		return
	}
	for at := 0; at < len(c.sums); at += c.buckets {
		filling := 0.0
		for b := range c.buckets {
			if filling += c.whole[at+b]; filling != 0 {
				c.sums[at+b] += filling * float64(c.starts[b+1]-c.starts[b])
			}
		}
	}
}
