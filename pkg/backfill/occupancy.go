package backfill

import (
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// stays is how the states of all GPUs of the pool change, made once for an observation. A stay is a GPU's time in one
// class and state; its key is class · runs.States + state.
type stays struct {
	classes *linked.Classes
	// The keys of the stays that begin at each snapshot, and of those that ended at the one before.
	begun, ended bySnapshot
}

// bySnapshot are values at each snapshot, in order.
type bySnapshot struct {
	values []int32
	begin  []int32 // of each snapshot's values; one more than there are snapshots
}

func (b *bySnapshot) at(snapshot int) []int32 { return b.values[b.begin[snapshot]:b.begin[snapshot+1]] }

// event is a value at a snapshot.
type event struct{ snapshot, value int32 }

// sortEvents brings events into order; those of a snapshot stay as they come.
func sortEvents(events []event, snapshots int) bySnapshot {
	none := bySnapshot{begin: []int32{0}}
	return none.upTo(0, events, snapshots)
}

// upTo returns the values before a snapshot, and those of events at it and later; events of a snapshot stay as they
// come.
func (b *bySnapshot) upTo(snapshot int, events []event, snapshots int) bySnapshot {
	known := int(b.begin[snapshot])
	c := bySnapshot{make([]int32, known+len(events)), make([]int32, snapshots+1)}
	copy(c.values, b.values[:known])
	for _, e := range events {
		c.begin[e.snapshot+1]++
	}
	copy(c.begin, b.begin[:snapshot+1])
	for i := snapshot; i < snapshots; i++ {
		c.begin[i+1] += c.begin[i]
	}
	next := slices.Clone(c.begin)
	for _, e := range events {
		c.values[next[e.snapshot]] = e.value
		next[e.snapshot]++
	}
	return c
}

func staysOf(ctx context.Context, o *runs.Observed) (*stays, error) {
	type key struct{}
	return runs.DerivedAgain(ctx, o, key{}, func(before *stays, same *runs.Same) (*stays, error) {
		s, from := &stays{classes: &linked.Classes{}}, 0 // what begins before it is known
		none := bySnapshot{begin: []int32{0}}
		begunBefore, endedBefore := &none, &none
		if same != nil && same.Settled() > int32(o.First) {
			classes := before.classes.Clone()
			s.classes, from = &classes, int(same.Settled())
			begunBefore, endedBefore = &before.begun, &before.ended
		}
		segments := o.Segments()
		if from > 0 {
			segments /= 32 // about
		}
		begun, ended := make([]event, 0, segments), make([]event, 0, segments)
		for m := range o.Machines {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			for i := range o.Machines[m].GPUs {
				begun, ended = s.read(o, &o.Machines[m].GPUs[i], int32(from), begun, ended)
			}
		}
		n := len(o.View.Times) + 1
		s.begun, s.ended = begunBefore.upTo(from, begun, n), endedBefore.upTo(from, ended, n)
		return s, nil
	})
}

// read appends a GPU's stays that begin or end at a snapshot or later.
func (s *stays) read(o *runs.Observed, gpu *runs.GPU, from int32, begun, ended []event) ([]event, []event) {
	bases := o.View.Base
	stay, next := int32(-1), int32(-1) // the one that goes on, and the snapshot behind it
	add := func(into []event, snapshot, key int32) []event {
		if key < 0 || snapshot < from {
			return into
		}
		return append(into, event{snapshot, key})
	}
	var place runs.Place
	var project timeline.Symbol
	number := int32(-1)
	for n := gpu.At(max(from-1, int32(o.First))); n < gpu.Segments.Len(); n++ {
		segment := gpu.Segments.At(n)
		if segment.State == runs.Outside {
			continue
		}
		for first := max(segment.First, from-1); first <= segment.Last; {
			until := segment.Last
			if day := o.View.DayAt(int(first)); day+1 < len(bases) {
				until = min(until, int32(bases[day+1]-1))
			}
			if p := o.PlaceAt(gpu, first); number < 0 || p != place || segment.Project != project {
				place, project = p, segment.Project
				number = s.classes.Number(linked.Class{Place: place, Project: project})
			}
			if key := number*int32(runs.States) + int32(segment.State); key != stay || first != next {
				ended = add(ended, next, stay)
				begun = add(begun, first, key)
				stay = key
			}
			next = until + 1
			first = next
		}
	}
	return begun, add(ended, next, stay)
}

// occupancy counts GPU-snapshots by bucket: how many GPUs were in each state, summed over snapshots.
type occupancy struct {
	counts [][runs.States]int64
	full   [][runs.States]int32 // change of the number of GPUs in the state over all of the bucket
}

func newOccupancy(buckets int) *occupancy {
	return &occupancy{make([][runs.States]int64, buckets), make([][runs.States]int32, buckets+1)}
}

// change adds n GPUs to a state from a snapshot on that lies in a bucket with so many snapshots from there on.
func (o *occupancy) change(s runs.State, n int32, bucket int, snapshots int32) {
	o.counts[bucket][s] += int64(n) * int64(snapshots)
	o.full[bucket+1][s] += n
}

// finish turns full into counts.
func (o *occupancy) finish(c *calendar) {
	var gpus [runs.States]int64
	for b := range o.counts {
		n := int64(c.snapshots(b))
		for s := range gpus {
			gpus[s] += int64(o.full[b][s])
			o.counts[b][s] += gpus[s] * n
		}
	}
}

// occupy counts the states of all chosen GPUs of the pool by group, in each of so many buckets.
func occupy(ctx context.Context, o *runs.Observed, c *calendar, buckets int, g *grouping,
	chosen *runs.Chosen) (map[group]*occupancy, error) {
	all, err := staysOf(ctx, o)
	if err != nil {
		return nil, err
	}
	groups := g.among(all.classes, chosen, buckets)
	var counted []*occupancy
	change := func(key, n int32, bucket int, snapshots int32) error {
		class := key / int32(runs.States)
		k, err := groups.number(class)
		if err != nil || k < 0 {
			return err
		}
		if int(k) == len(counted) {
			counted = append(counted, newOccupancy(buckets))
		}
		counted[k].change(runs.State(key-class*int32(runs.States)), n, bucket, snapshots)
		return nil
	}
	if c.first == c.end {
		return map[group]*occupancy{}, nil
	}
	for key, n := range all.at(c.first) {
		if n != 0 {
			if err := change(int32(key), n, int(c.bucket[0]), c.left(c.first)); err != nil {
				return nil, err
			}
		}
	}
	for s := c.first + 1; s < c.end; s++ {
		bucket, left := int(c.bucket[s-c.first]), c.left(s)
		for _, key := range all.ended.at(s) {
			if err := change(key, -1, bucket, left); err != nil {
				return nil, err
			}
		}
		for _, key := range all.begun.at(s) {
			if err := change(key, 1, bucket, left); err != nil {
				return nil, err
			}
		}
	}
	found := make(map[group]*occupancy, len(counted))
	for k, into := range counted {
		into.finish(c)
		found[groups.keys.All[k]] = into
	}
	return found, nil
}

// at returns the number of GPUs in each stay's key at a snapshot.
func (s *stays) at(snapshot int) []int32 {
	now := make([]int32, len(s.classes.All)*runs.States)
	for _, key := range s.begun.values[:s.begun.begin[snapshot+1]] {
		now[key]++
	}
	for _, key := range s.ended.values[:s.ended.begin[snapshot+1]] {
		now[key]--
	}
	return now
}
