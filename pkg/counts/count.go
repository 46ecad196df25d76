// Package counts counts GPU-slices by group, state and bucket (methodology sections 4 to 6).
package counts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"unsafe"
	"weak"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Class is a category of GPU-slices. A GPU can count as a state on both sides, and in addition as Free or Prevented.
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

// Figures are GPU-slices by group, class and bucket.
type Figures struct {
	Groups  []Group   // in no order
	Slices  []float64 // N of each bucket
	Buckets query.Buckets
	Drawn   []int         // the buckets that have a point: those with a slice that the plan keeps
	Times   []pool.Micros // when the points are: at beginnings of buckets, or at that of the window's newest slice
}

// Group has the GPU-slices of a group.
type Group struct {
	Key   aggregate.Key
	Side  pool.Side // known if grouped by slots or category
	Texts []string  // by the groupings, as answers show them
	Sums  Sums
}

// Sums are GPU-slices by class and bucket; nil for classes that were not requested.
type Sums [Classes][]float64

type counter struct {
	Figures
	keys  pool.Numbered[aggregate.Key]
	wants []Class
	cells int
}

// maxCells bounds the memory of one answer: 30 million numbers, 240 MB.
const maxCells = 30_000_000

// New counts the GPU-slices of a window, grouped by the names of groupings (of allocation and `user`), by bucket.
// If users matter, because they are grouped by or filtered, only claims are counted. Groups without a GPU that
// counts do not exist. projects are those of jobs, by which claims can be grouped as well (`jobProject`, and
// `attribution`: how they are known); nil: they do not matter.
func New(ctx context.Context, memo stores.Memo, p *query.Plan, s *timeline.Slices, projects *queues.Projects,
	groupings []string, wants ...Class) (*Figures, error) {
	from := p.Window.From
	if s.N() > 0 {
		from = min(from, s.Begin[0])
	}
	buckets, err := p.Buckets(from)
	if err != nil {
		return nil, err
	}
	// Find the bucket of each slice.
	c := &counter{Figures: Figures{Slices: make([]float64, buckets.Len()), Buckets: buckets}, wants: wants}
	bucketOf := make([]int32, s.N())
	for i, begin := range s.Begin {
		bucketOf[i] = int32(buckets.Of(begin))
		c.Slices[bucketOf[i]]++
	}

	question := p.Question(groupings)
	names := s.View.Names.Texts()
	classify := NewClassifier(p, names, groupings...)
	if projects != nil {
		classify.projects, classify.byUser = projects, true
		question = sha256.Sum256(binary.BigEndian.AppendUint64(question[:], projects.Fingerprint))
	}
	// Count each day by itself, then the slices that two days share.
	parts := make([]*part, len(s.Days))
	err = parallel.Each(ctx, len(s.Days), func(i int) {
		parts[i] = partOf(memo, question, &s.Days[i], bucketOf, classify)
	})
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err := c.add(part); err != nil {
			return nil, err
		}
	}
	if err := c.addShared(ctx, classify, s, bucketOf); err != nil {
		return nil, err
	}
	// Draw the buckets that have a slice.
	times := aggregate.Times(buckets, s.Begin, 0)
	for b, n := range c.Slices {
		if n > 0 && p.Keep(buckets, b, s.Newest) {
			c.Drawn, c.Times = append(c.Drawn, b), append(c.Times, times[b])
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		g.Texts = g.Key.Texts(p, groupings, names)
		if g.Side = pool.Side(g.Key[query.BySlots]); slices.Contains(groupings, "category") {
			g.Side = pool.Category(g.Key[query.ByCategory]).Side()
		}
	}
	return &c.Figures, nil
}

// group returns the sums of a group, valid until the next call.
func (c *counter) group(key aggregate.Key) (*Sums, error) {
	n := int(c.keys.Number(key))
	if n == len(c.Groups) {
		g := Group{Key: key}
		if c.cells += len(c.wants) * len(c.Slices); c.cells > maxCells {
			return nil, pool.BadQuery("more than %d groups over %d buckets are too many: group by less, filter, or choose a "+
				"longer bucket", n, len(c.Slices))
		}
		for _, class := range c.wants {
			g.Sums[class] = make([]float64, len(c.Slices))
		}
		c.Groups = append(c.Groups, g)
	}
	return &c.Groups[n].Sums, nil
}

func (c *counter) add(p *part) error {
	for g, key := range p.groups {
		sums, err := c.group(key)
		if err != nil {
			return err
		}
		for _, class := range c.wants {
			if int(class) >= p.classes {
				continue // only claims were counted
			}
			from := (g*p.classes + int(class)) * p.buckets
			for b, sum := range p.sums[from : from+p.buckets] {
				if sum != 0 {
					sums[class][p.first+b] += sum
				}
			}
		}
	}
	return nil
}

// addShared adds the slices that two days share.
func (c *counter) addShared(ctx context.Context, classify *Classifier, s *timeline.Slices, bucketOf []int32) error {
	var failure error
	placeOf := timeline.Counting(classify.names, classify.lists)
	err := s.Shared(ctx, func(slice int, sides [2]timeline.SliceSide) {
		rows := [2]*timeline.Row{sides[pool.Primary].Row, sides[pool.Backfill].Row}
		for _, t := range tally(rows, classify.byUser, nil) {
			at := &sides[t.side]
			gpu, counts := classify.GPU(placeOf(at.Day, at.I))
			if !counts {
				continue
			}
			holders := at.Holders
			if len(holders) == 0 || !classify.byUser {
				holders = []timeline.Holder{{User: at.Row.User}}
			}
			for _, h := range holders {
				group, counts := classify.KeyOf(&gpu, t.side, at.Row, h)
				if !counts || failure != nil {
					continue
				}
				var sums *Sums
				if sums, failure = c.group(group); failure == nil && sums[t.class] != nil {
					sums[t.class][bucketOf[slice]] += 1 / float64(len(holders))
				}
			}
		}
	})
	return cmp.Or(err, failure)
}

// sideClass is a class that a GPU-slice counts as, on one of its sides.
type sideClass struct {
	side  pool.Side
	class Class
}

// tally appends the classes of a GPU-slice: methodology sections 4 (backfill is None if primary is Claimed) and 5.
func tally(rows [2]*timeline.Row, claimsOnly bool, all []sideClass) []sideClass {
	for side, row := range rows {
		if row.State != pool.None && (row.State == pool.Claimed || !claimsOnly) {
			all = append(all, sideClass{pool.Side(side), classOf[row.State]})
		}
	}
	if claimsOnly {
		return all
	}
	switch use, side := UseOf(rows); use {
	case UsePrevented:
		all = append(all, sideClass{side, Prevented})
	case UseFree:
		all = append(all, sideClass{side, Free})
	}
	return all
}

// part is the count of one day without the slices that it shares with a neighbor.
type part struct {
	groups  []aggregate.Key
	classes int       // all, or 1: only Claimed
	first   int       // the first bucket
	buckets int       // their number
	sums    []float64 // by group, class and bucket
}

// The counts of days are kept, so that a repeated or moved panel adds up a few numbers a day, also for the days in
// which a window begins and ends. Days never change: one that grows or is read again is another one.

// memoKey names the count of a day.
type memoKey struct {
	day        weak.Pointer[timeline.Day]
	first, end int // its snapshots in slices of its own
	question   [sha256.Size]byte
}

// Bytes implements stores.Figures.
func (p *part) Bytes() int {
	return int(unsafe.Sizeof(memoKey{})+unsafe.Sizeof(*p)) + len(p.groups)*int(unsafe.Sizeof(aggregate.Key{})) +
		8*cap(p.sums)
}

// partOf returns a day's count, counted now if it is not known.
func partOf(memo stores.Memo, question [sha256.Size]byte, d *timeline.DaySlices, bucketOf []int32,
	classify *Classifier) *part {
	if d.First > d.Last {
		return &part{}
	}
	key := memoKey{day: weak.Make(d.Day), question: question}
	key.first, _ = d.In(d.First)
	_, key.end = d.In(d.Last)
	known, _ := stores.Remember(memo, key, func() (*part, error) { return countDay(d, bucketOf, classify), nil })
	here := *known
	here.first = int(bucketOf[d.First]) // buckets are anchored to the calendar: only their numbers are the window's
	return &here
}

type dayCount struct {
	*part
	classify *Classifier
	day      *timeline.DaySlices
	keys     pool.Numbered[aggregate.Key]
	filled   []float64 // like sums, only by user: buckets that pieces fill, which are added last
	bucketOf []int32   // by slice
	ends     []int32   // by bucket: the first slice after it
	known    []int32   // by row and side: its group + 2 on GPUs of the class; 0: not known yet
	class    GPUClass
	tallied  []sideClass // what the piece that is counted counts as
}

// countDay counts a day without the slices that it shares with a neighbor.
func countDay(d *timeline.DaySlices, bucketOf []int32, classify *Classifier) *part {
	c := dayCount{part: &part{classes: Classes}, classify: classify, day: d, bucketOf: bucketOf}
	if classify.byUser {
		c.classes = 1
	}
	c.first = int(bucketOf[d.First])
	c.buckets = int(bucketOf[d.Last]) - c.first + 1
	c.ends = make([]int32, c.buckets)
	for slice := d.First; slice <= d.Last; slice++ {
		c.ends[int(bucketOf[slice])-c.first] = int32(slice) + 1
	}
	c.known = make([]int32, 2*len(d.Rows))
	var jobs timeline.Jobs // nil: they do not matter
	if classify.projects != nil {
		jobs = d.Jobs()
	}
	var pieces []timeline.Piece
	for i, class := range classify.GPUs(d.Day) {
		if class != c.class {
			clear(c.known)
			c.class = class
		}
		pieces = d.Pieces(i, jobs, pieces[:0])
		for k := range pieces {
			c.countPiece(&pieces[k])
		}
	}
	c.groups = c.keys.All
	for i, slices := range c.filled {
		c.sums[i] += slices
	}
	return c.part
}

// countPiece counts the states of a piece of a GPU, and it as free or prevented. Several users share a claim.
func (c *dayCount) countPiece(p *timeline.Piece) {
	numbers := [2]uint32{p.Primary, p.Backfill}
	rows := [2]*timeline.Row{&c.day.Rows[p.Primary], &c.day.Rows[p.Backfill]}
	c.tallied = tally(rows, c.classify.byUser, c.tallied[:0])
	for _, t := range c.tallied {
		row := rows[t.side]
		var holders []timeline.Holder
		if c.classify.byUser && p.Holders != nil {
			holders = p.Holders[t.side]
		}
		if holders == nil {
			group := &c.known[2*numbers[t.side]+uint32(t.side)]
			if *group == 0 {
				*group = 2 + c.group(t.side, row, timeline.Holder{User: row.User})
			}
			c.add(*group-2, t.class, p, 1)
		}
		for _, h := range holders {
			c.add(c.group(t.side, row, h), t.class, p, 1/float64(len(holders)))
		}
	}
}

// group returns the group of a row that a user holds, −1 if a filter leaves it out.
func (c *dayCount) group(side pool.Side, row *timeline.Row, h timeline.Holder) int32 {
	key, counts := c.classify.KeyOf(&c.class, side, row, h)
	if !counts {
		return -1
	}
	n := c.keys.Number(key)
	if size := c.classes * c.buckets; int(n)*size == len(c.sums) {
		c.sums = append(c.sums, make([]float64, size)...)
		if c.classify.byUser {
			c.filled = append(c.filled, make([]float64, size)...)
		}
	}
	return n
}

// add counts a GPU, or a user's share of it, in each of a piece's slices. Shares are not exact, so that their sums
// depend on the order: a bucket that a whole GPU fills is added after all shares.
func (c *dayCount) add(group int32, class Class, p *timeline.Piece, share float64) {
	if group < 0 {
		return
	}
	at := (int(group)*c.classes + int(class)) * c.buckets
	sums := c.sums[at : at+c.buckets]
	for slice := p.First; slice <= p.Last; {
		bucket := c.bucketOf[slice]
		b := int(bucket) - c.first
		n := min(c.ends[b], p.Last+1) - slice
		switch {
		case share != 1:
			for range n {
				sums[b] += share
			}
		case c.filled != nil && bucket > c.bucketOf[p.First] && bucket < c.bucketOf[p.Last]:
			c.filled[at+b] += float64(n)
		default:
			sums[b] += float64(n)
		}
		slice += n
	}
}
