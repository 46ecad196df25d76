package runs

import (
	"context"
	"math"
	"sync"

	"github.com/chtc/gpureports/pkg/pool"
)

// Same says what is known of runs, and shown by snapshots, as it was earlier. Machines, GPUs and runs have the numbers
// that they had.
type Same struct {
	observed *Observed
	settled  int32  // all snapshots before it show what they showed
	fresh    []bool // by job number: explained again
	// Of each machine: runs without a GlobalJobId that begin at this snapshot or later are explained again.
	nameless []int32
	unseen   []pool.Micros // of each machine: unseen runs that begin before it are what they were
	parts    [][]bool      // of each machine's explained runs: the parts in which all is what it was
}

// Settled is the snapshot before which all snapshots show what they showed.
func (s *Same) Settled() int32 { return s.settled }

// Before reports whether all that a machine's snapshots and unseen runs show before a snapshot, at a time, is what it
// was. What runs are known to be is not part of it.
func (s *Same) Before(machine int, snapshot int32, at pool.Micros) bool {
	return snapshot < s.settled && at <= s.unseen[machine]
}

// Part reports whether all of a part of a machine's explained runs is what it was, with the same numbers.
func (s *Same) Part(machine, part int) bool { return s.parts[machine][part] }

// Run reports whether a run is explained as it was; true of −1, none.
func (s *Same) Run(machine int, run int32) bool {
	if run < 0 {
		return true
	}
	if job := s.observed.jobs().of[machine][run]; job >= 0 {
		return !s.fresh[job]
	}
	return s.observed.Machines[machine].Runs.At(int(run)).First < s.nameless[machine]
}

// earlier is what kinds made of what was known before.
type earlier struct {
	made sync.Map // by key; each until it is made again
	same *Same
}

// again is what kinds made, for what continues this.
func (d *derived) again(same *Same) *earlier {
	e := &earlier{same: same}
	d.kept.Range(func(key, made any) bool {
		e.made.Store(key, made)
		return true
	})
	return e
}

// earlier is what kinds made of what was known before, with what is the same since; nil: nothing is.
func (a *again) earlier(x *Explanations) *earlier {
	if a == nil {
		return nil
	}
	e := a.before.derived.again(a.Same)
	e.same.unseen, e.same.parts = make([]pool.Micros, len(x.Machines)), make([][]bool, len(x.Machines))
	for m := range x.Machines {
		before, now := &a.before.Machines[m], &x.Machines[m]
		e.same.unseen[m] = firstOther(before.Unseen, now.Unseen)
		e.same.parts[m] = make([]bool, now.Runs.Parts())
		for p := range e.same.parts[m] {
			e.same.parts[m][p] = now.Runs.isPart(&before.Runs, p)
		}
	}
	return e
}

// firstOther returns the time from which on two lists of unseen runs, each by their start, are not the same.
func firstOther(a, b []Explained) pool.Micros {
	n := 0
	for n < min(len(a), len(b)) && a[n].same(&b[n]) {
		n++
	}
	first := pool.Micros(math.MaxInt64)
	for _, list := range [][]Explained{a, b} {
		if n < len(list) {
			first = min(first, list[n].Start)
		}
	}
	return first
}

// same reports whether the same is known of two runs of a machine.
func (e *Explained) same(f *Explained) bool {
	x, y := *e, *f
	x.Run, y.Run, x.own, y.own = nil, nil, nil, nil
	return x == y && (e.Run == f.Run || e.Run.equal(f.Run))
}

// DerivedAgain is [Derived] that is given what was made earlier by the same key, and what is the same since; nil:
// nothing was.
func DerivedAgain[T any](ctx context.Context, from Origin, key any, make func(before T, same *Same) (T, error)) (T,
	error) {
	return Derived(ctx, from, key, func() (made T, err error) {
		var before T
		var same *Same
		e := from.keeps().earlier
		if e != nil {
			if kept, ok := e.made.Load(key); ok {
				before, same = kept.(T), e.same
			}
		}
		if made, err = make(before, same); err == nil && same != nil {
			e.made.Delete(key)
		}
		return made, err
	})
}
