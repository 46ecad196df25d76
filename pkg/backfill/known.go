package backfill

import (
	"cmp"
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// known are the periods of all machines: what does not depend on a window is made once for as long as the same is known
// of runs.
type known struct {
	// periods come by machine, GPU and time. Their ends are those of the runs that bound them (if there are ads), and what
	// unseen runs cover is left out; those that go on at the last observed snapshot are as the snapshots show them.
	periods []Period
	// byLength has their numbers by length, ascending, those of one length as they come; open ones are left out.
	byLength []int32
	// seen is where snapshots show them, before unseen runs were left out.
	seen []bounds
}

// periodsOf returns the periods that are known of a measure. Errors are ctx's.
func periodsOf(ctx context.Context, o *runs.Observed, of *runs.Known, m measure) (*known, error) {
	return runs.Derived(ctx, of, m, func() (*known, error) {
		byMachine := make([]known, len(o.Machines))
		err := parallel.Each(ctx, len(o.Machines), func(_ *struct{}, n int) {
			byMachine[n] = knownOf(o, of, n, m)
		})
		if err != nil {
			return nil, err
		}
		periods, seen := 0, 0
		for i := range byMachine {
			periods, seen = periods+len(byMachine[i].periods), seen+len(byMachine[i].seen)
		}
		all := &known{periods: make([]Period, 0, periods), seen: make([]bounds, 0, seen)}
		for i := range byMachine {
			all.periods = append(all.periods, byMachine[i].periods...)
			all.seen = append(all.seen, byMachine[i].seen...)
		}
		all.byLength = sorted(len(all.periods), func(i int) pool.Micros { return all.periods[i].Length() })
		all.byLength = slices.DeleteFunc(all.byLength, func(i int32) bool { return all.periods[i].open })
		return all, nil
	})
}

// knownOf returns the periods of a machine.
func knownOf(o *runs.Observed, of *runs.Known, machine int, m measure) (k known) {
	cutter := cutter{measure: m, observed: o, explained: of.Explanations}
	found := find(o, machine, m)
	k.periods, k.seen = make([]Period, 0, len(found)), make([]bounds, 0, len(found))
	for _, p := range found {
		k.seen = append(k.seen, p.bounds)
		if of.Sharp {
			p.sharpen(o, &of.Machines[machine])
		}
		if p.open {
			k.periods = append(k.periods, p)
		} else {
			k.periods = append(k.periods, cutter.parts(p)...)
		}
	}
	return k
}

// sorted returns the numbers of n items by a time, ascending; those with the same time keep their order.
func sorted(n int, by func(i int) pool.Micros) []int32 {
	type keyed struct {
		key  pool.Micros
		from int32
	}
	keys := make([]keyed, n)
	for i := range keys {
		keys[i] = keyed{by(i), int32(i)}
	}
	slices.SortFunc(keys, func(a, b keyed) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return int(a.from - b.from)
	})
	numbers := make([]int32, n)
	for i, k := range keys {
		numbers[i] = k.from
	}
	return numbers
}

// chosen are the periods that overlap a window and pass a filter.
type chosen struct {
	known   *known
	periods []*Period // by machine, GPU and time; shared: read only
	// place is where each of the known periods stands among them; −1: nowhere, or not with the length that is known.
	place []int32
	cut   []int32 // those with another length: they go on, end after the window, or began before what is seen for it
}

// choose brings the known periods to a window; whole is given all parts of each GPU's, before that, if it is not nil.
func (k *known) choose(o *runs.Observed, x *runs.Explanations, m measure, w pool.Window, pass func(*Period) bool,
	whole gpuTenures) *chosen {
	c := &chosen{known: k, periods: make([]*Period, 0, len(k.periods)), place: make([]int32, len(k.periods))}
	cutter := cutter{measure: m, observed: o, explained: x}
	since := o.Since(w)
	take := func(p *Period) { // a copy
		if p.cut(w) && pass(p) {
			c.cut = append(c.cut, int32(len(c.periods)))
			c.periods = append(c.periods, p)
		}
	}
	for i := range k.periods {
		p := &k.periods[i]
		c.place[i] = -1
		if p.open {
			going := *p
			going.close(o, w)
			going.from(o, since)
			for _, part := range cutter.parts(going) {
				whole.add(&part)
				take(&part)
			}
			continue
		}
		if p.first <= since && p.last >= since {
			later := *p
			later.from(o, since)
			whole.add(&later)
			take(&later)
			continue
		}
		whole.add(p)
		switch {
		case p.End < w.From || p.Start > w.To:
		case p.End > w.To:
			shorter := *p
			take(&shorter)
		case pass(p):
			c.place[i] = int32(len(c.periods))
			c.periods = append(c.periods, p)
		}
	}
	return c
}

// byLength returns the periods' numbers by their lengths, ascending; those with the same length keep their order.
func (c *chosen) byLength() []int32 {
	length := func(i int32) pool.Micros { return c.periods[i].Length() }
	cut := slices.Clone(c.cut)
	slices.SortStableFunc(cut, func(a, b int32) int { return cmp.Compare(length(a), length(b)) })
	numbers := make([]int32, 0, len(c.periods))
	for _, i := range c.known.byLength {
		at := c.place[i]
		if at < 0 {
			continue
		}
		for len(cut) > 0 && cmp.Or(cmp.Compare(length(cut[0]), length(at)), cmp.Compare(cut[0], at)) < 0 {
			numbers, cut = append(numbers, cut[0]), cut[1:]
		}
		numbers = append(numbers, at)
	}
	return append(numbers, cut...)
}
