// Package counts counts GPU-slices by group, state and bucket (methodology sections 4 to 6).
package counts

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
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
	Classes int = iota // their number
)

var classOf = [...]Class{pool.Other: OtherState, pool.Drained: Drained, pool.Unclaimed: Unclaimed,
	pool.Claimed: Claimed}

// Count holds GPU-slices by group, class and bucket.
type Count struct {
	Groups  []Group // in no order
	Slices  []int   // N of each bucket
	Begin   []pool.Micros
	Buckets query.Buckets

	index map[Group]int
	sums  []Sums // by group
	wants []Class
	cells int
}

// Sums are GPU-slices by class and bucket; nil for classes that were not asked for.
type Sums [Classes][]float64

// Of returns the sums of a group.
func (c *Count) Of(group int) *Sums { return &c.sums[group] }

// Wants are the classes that were asked for.
func (c *Count) Wants() []Class { return c.wants }

// Sum returns the GPU-slices of a group in a bucket.
func (c *Count) Sum(group int, class Class, bucket int) float64 { return c.sums[group][class][bucket] }

// maxCells bounds the memory of one answer: 30 million numbers, 240 MB.
const maxCells = 30_000_000

// New counts the GPU-slices of a window, grouped by the names of groupings (of allocation and `user`), by bucket.
// Where users matter, because they are grouped by or filtered, only claims are counted. Groups without a GPU that
// counts do not exist.
func New(ctx context.Context, kept *Cache, p *query.Plan, s *timeline.Slices, groupings []string,
	wants ...Class) (*Count, error) {
	from := p.Window.From
	if s.N() > 0 {
		from = min(from, s.Begin[0])
	}
	buckets, err := p.Buckets(from)
	if err != nil {
		return nil, err
	}
	c := &Count{Slices: make([]int, buckets.Len()), Begin: s.Begin, Buckets: buckets, wants: wants}
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
	question, err := questionOf(p, by)
	if err != nil {
		return nil, err
	}
	parts := make([]*part, len(s.Days))
	err = parallel.Each(ctx, len(s.Days), func(day *dayCount, i int) {
		if day.classify == nil {
			day.classify, day.index = newClassifier(p, by, names), map[Group]int32{}
		}
		parts[i] = day.remembered(kept, question, &s.Days[i], bucketOf)
	})
	if err != nil {
		return nil, err
	}
	groups := 0 // of the day that has the most
	for _, part := range parts {
		groups = max(groups, len(part.groups))
	}
	c.index, c.Groups, c.sums = make(map[Group]int, groups), make([]Group, 0, groups), make([]Sums, 0, groups)
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
	var sums Sums
	all, buckets := make([]float64, len(c.wants)*len(c.Slices)), len(c.Slices)
	for i, class := range c.wants {
		sums[class] = all[i*buckets : (i+1)*buckets : (i+1)*buckets]
	}
	if c.cells += len(c.wants) * len(c.Slices); c.cells > maxCells {
		return 0, pool.BadQuery("more than %d groups over %d buckets are too many: group by less, filter, or choose a "+
			"longer bucket", len(c.Groups), len(c.Slices))
	}
	n = len(c.Groups)
	c.index[g], c.Groups, c.sums = n, append(c.Groups, g), append(c.sums, sums)
	return n, nil
}

// add adds a day's part.
func (c *Count) add(p *part) error {
	n := -1
	for g := range p.groups {
		if n++; n >= len(c.Groups) || c.Groups[n] != p.groups[g] { // days mostly have the same groups in the same order
			var err error
			if n, err = c.group(p.groups[g]); err != nil {
				return err
			}
		}
		for _, class := range c.wants {
			if int(class) >= p.classes {
				continue // only claims were counted
			}
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
func (c *Count) addShared(ctx context.Context, classify *Classifier, s *timeline.Slices, bucketOf []int32) error {
	var failure error
	err := s.Shared(ctx, func(slice int, primary, backfill timeline.SharedSide) {
		add := func(side pool.Side, at *timeline.SharedSide, class Class) {
			gpu, counts := classify.GPU(at.Day, at.I)
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
		tally(primary.State(), backfill.State(), prevented(&primary), prevented(&backfill), classify.byUser,
			func(side pool.Side, class Class) {
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
func tally(primary, backfill pool.State, preventedPrimary, preventedBackfill, claimsOnly bool,
	add func(pool.Side, Class)) {
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

// dayCount counts days, one after the other.
type dayCount struct {
	*part
	classify *Classifier
	day      *timeline.DaySlices
	rows     []timeline.Row
	index    map[Group]int32

	gpus       []GPUClass // distinct
	ofGPU      []int32    // the class of each of the day's GPUs, -1 for those left out
	ofRow      []int32    // the class of each row: what it brings into its groups
	rowClasses int
	codes      []code  // of each row
	cells      []int32 // groups by side, GPU class and row class; unset, or no group
	pieces     []timeline.Piece

	bucketOf []int32   // of each slice, from the first one of the day
	starts   []int32   // of each bucket its first slice, from the first one of the day
	whole    []float64 // changes of the number that fills whole buckets, like sums

	gpu  GPUClass
	base [2]int32 // where the GPU's cells begin
}

// code is what a row says of its state, in a byte: rows themselves are too many for the processor's nearest cache.
type code uint8

const (
	codePrevented code = 8
	codeState     code = 7
)

func codeOf(r *timeline.Row) code {
	c := code(r.State)
	if r.Prevented {
		c |= codePrevented
	}
	return c
}

const (
	unset   = -1
	noGroup = -2
)

// count counts a day without the slices that it shares with a neighbour.
func (c *dayCount) count(d *timeline.DaySlices, bucketOf []int32) *part {
	before := 0 // the groups of the day before: this one has about as many
	if c.part != nil {
		before = len(c.groups)
	}
	c.part = &part{classes: Classes}
	if d.First > d.Last {
		return c.part
	}
	if c.classify.byUser {
		c.classes = 1
	}
	c.day, c.rows = d, d.Rows()
	clear(c.index)
	c.divide(bucketOf)
	c.classifyGPUs()
	c.classifyRows()
	c.cells = slices.Grow(c.cells[:0], 2*len(c.gpus)*c.rowClasses)[:2*len(c.gpus)*c.rowClasses]
	for i := range c.cells {
		c.cells[i] = unset
	}
	c.whole = c.whole[:0]
	c.groups, c.sums = make([]Group, 0, before), make([]float64, 0, before*c.classes*c.buckets)
	for i, class := range c.ofGPU {
		if class < 0 {
			continue
		}
		c.gpu = c.gpus[class]
		c.base[pool.Primary] = class * int32(c.rowClasses)
		c.base[pool.Backfill] = (int32(len(c.gpus)) + class) * int32(c.rowClasses)
		c.pieces = d.Pieces(i, c.pieces[:0])
		if c.classify.byUser {
			c.countClaims()
		} else {
			c.countStates()
		}
	}
	c.finish()
	return c.part
}

// divide finds the day's buckets.
func (c *dayCount) divide(bucketOf []int32) {
	c.first = int(bucketOf[c.day.First])
	c.buckets = int(bucketOf[c.day.Last]) - c.first + 1
	c.bucketOf, c.starts = c.bucketOf[:0], c.starts[:0]
	for slice, b := range bucketOf[c.day.First : c.day.Last+1] {
		b -= int32(c.first)
		for int(b) >= len(c.starts) { // a bucket without a slice begins with the next one
			c.starts = append(c.starts, int32(slice))
		}
		c.bucketOf = append(c.bucketOf, b)
	}
	c.starts = append(c.starts, int32(len(c.bucketOf)))
}

// classifyGPUs puts the day's GPUs into classes.
func (c *dayCount) classifyGPUs() {
	c.ofGPU, c.gpus = slices.Grow(c.ofGPU[:0], c.day.GPUs())[:c.day.GPUs()], c.gpus[:0]
	for i := range c.ofGPU {
		c.ofGPU[i] = -1
	}
	index := map[GPUClass]int32{}
	n := int32(-1)
	for i, class := range c.classify.GPUs(c.day.Day) {
		if n < 0 || c.gpus[n] != class { // mostly that of the GPU before
			if _, known := index[class]; !known {
				index[class] = int32(len(c.gpus))
				c.gpus = append(c.gpus, class)
			}
			n = index[class]
		}
		c.ofGPU[i] = n
	}
}

// classifyRows puts rows into classes: those with equal projects, users and reasons as far as they matter.
func (c *dayCount) classifyRows() {
	c.codes, c.ofRow = c.codes[:0], c.ofRow[:0]
	for i := range c.rows {
		c.codes = append(c.codes, codeOf(&c.rows[i]))
	}
	byProject := c.classify.by.project || !c.classify.selected.Projects.All()
	if !byProject && !c.classify.byUser && !c.classify.by.preventReason {
		for i := range c.rows {
			class := int32(0)
			if c.rows[i].Project != 0 {
				class = 1
			}
			c.ofRow = append(c.ofRow, class)
		}
		c.rowClasses = 2
		return
	}
	type key struct {
		hasProject            bool
		project, user, reason timeline.Symbol
	}
	index := map[key]int32{}
	for i := range c.rows {
		k := key{hasProject: c.rows[i].Project != 0}
		if byProject {
			k.project = c.rows[i].Project
		}
		if c.classify.by.preventReason {
			k.reason = c.rows[i].Reason
		}
		if c.classify.byUser {
			k.user = c.rows[i].User
		}
		n, known := index[k]
		if !known {
			n = int32(len(index))
			index[k] = n
		}
		c.ofRow = append(c.ofRow, n)
	}
	c.rowClasses = len(index)
}

// countStates counts a GPU's pieces by state, and as free or prevented.
func (c *dayCount) countStates() {
	for i := range c.pieces {
		p := &c.pieces[i]
		primary, backfill := c.codes[p.Primary], c.codes[p.Backfill]
		lead, group := primary, int32(noGroup)
		if p.Backfill != 0 {
			group = c.group(pool.Backfill, p.Backfill)
			c.add(group, classOf[backfill&codeState], p)
			lead = backfill
		}
		if p.Primary != 0 {
			group = c.group(pool.Primary, p.Primary)
			c.add(group, classOf[primary&codeState], p)
			lead = primary
		}
		switch {
		case pool.State(primary&codeState) == pool.Claimed || pool.State(backfill&codeState) == pool.Claimed:
		case lead&codePrevented != 0:
			c.add(group, Prevented, p)
		case pool.State(lead) == pool.Unclaimed:
			c.add(group, Free, p)
		}
	}
}

// countClaims counts a GPU's claimed pieces by user; several users share a piece.
func (c *dayCount) countClaims() {
	for i := range c.pieces {
		p := &c.pieces[i]
		for side, row := range [2]uint32{p.Primary, p.Backfill} {
			if pool.State(c.codes[row]&codeState) != pool.Claimed {
				continue
			}
			users := p.UsersOf(pool.Side(side))
			if users == nil {
				c.add(c.group(pool.Side(side), row), Claimed, p)
				continue
			}
			for _, u := range users {
				group := c.find(pool.Side(side), row, u)
				if group < 0 {
					continue
				}
				sums := c.sums[int(group)*c.classes*c.buckets:]
				for slice := p.First; slice <= p.Last; slice++ {
					sums[c.bucketOf[int(slice)-c.day.First]] += 1 / float64(len(users))
				}
			}
		}
	}
}

// group returns the group of a row, held by its own user, or noGroup.
func (c *dayCount) group(side pool.Side, row uint32) int32 {
	cell := &c.cells[c.base[side]+c.ofRow[row]]
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
		empty := len(c.sums)
		c.sums = slices.Grow(c.sums, c.classes*c.buckets)[:empty+c.classes*c.buckets]
		c.whole = slices.Grow(c.whole, c.classes*c.buckets)[:empty+c.classes*c.buckets]
		clear(c.sums[empty:])
		clear(c.whole[empty:])
	}
	return n
}

// add counts a GPU in a piece's slices: in part in the buckets at the ends, and as a change of the number that fills
// the buckets in between.
func (c *dayCount) add(group int32, class Class, p *timeline.Piece) {
	if group < 0 {
		return
	}
	first, last := p.First-int32(c.day.First), p.Last-int32(c.day.First)
	at := (int(group)*c.classes + int(class)) * c.buckets
	a, b := c.bucketOf[first], c.bucketOf[last]
	sums := c.sums[at : at+c.buckets]
	if a == b {
		sums[a] += float64(last - first + 1)
		return
	}
	sums[a] += float64(c.starts[a+1] - first)
	sums[b] += float64(last - c.starts[b] + 1)
	whole := c.whole[at : at+c.buckets]
	whole[a+1]++
	whole[b]--
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
