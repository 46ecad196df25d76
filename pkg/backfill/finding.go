package backfill

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/runs"
)

// finding are the periods of a machine: of each GPU those that are what they were, and those that were found.
type finding struct {
	gpus    []taken
	periods []Period
	rows    []row    // of periods
	ranks   []ranked // of those that are in statistics
	seen    []bounds
}

// taken is what is taken over of a GPU's periods, by their numbers.
type taken struct {
	seen, periods stretch
	behind        int32 // the last snapshot of those that are taken over, −1 = none are
}

// stretch are the numbers from begin up to before end.
type stretch struct{ begin, end int }

// takeOver finds what of a machine's periods is what it was: of each GPU the first ones.
func (f *finding) takeOver(o *runs.Observed, before *known, same *runs.Same, machine int) {
	f.gpus = make([]taken, len(o.Machines[machine].GPUs))
	s := sort.Search(len(before.seen), func(i int) bool { return int(before.seen[i].machine) >= machine })
	p := sort.Search(len(before.periods), func(i int) bool { return int(before.periods[i].machine) >= machine })
	for g := range f.gpus {
		t := &f.gpus[g]
		of := func(b *bounds) bool { return int(b.machine) == machine && int(b.gpu) == g }
		t.behind, t.seen.begin, t.periods.begin = -1, s, p
		for ; s < len(before.seen) && of(&before.seen[s]) && before.seen[s].same(o, same); s++ {
			t.behind = before.seen[s].last
		}
		for ; p < len(before.periods) && of(&before.periods[p].bounds) && before.periods[p].last <= t.behind; p++ {
		}
		t.seen.end, t.periods.end = s, p
		for ; s < len(before.seen) && of(&before.seen[s]); s++ {
		}
		for ; p < len(before.periods) && of(&before.periods[p].bounds); p++ {
		}
	}
}

// same reports whether the period at these bounds, and the runs that bound it, are what they were.
func (b *bounds) same(o *runs.Observed, same *runs.Same) bool {
	next, machine := b.last+1, int(b.machine)
	return int(next) < o.End && same.Before(machine, next, o.View.Times[next]) && same.Run(machine, b.startRun) &&
		same.Run(machine, b.endRun)
}

// explain makes periods of those that snapshots show.
func (f *finding) explain(o *runs.Observed, of *runs.Known, m measure, found []Period) {
	if len(found) == 0 {
		return
	}
	machine := &of.Machines[found[0].machine]
	cutter := cutter{measure: m, observed: o, explained: of.Explanations}
	f.periods = make([]Period, 0, len(found)+len(machine.Unseen)) // which cut most into two
	f.seen = make([]bounds, 0, len(found))
	for _, p := range found {
		f.seen = append(f.seen, p.bounds)
		if of.Sharp {
			p.sharpen(o, machine)
		}
		if p.open {
			f.periods = append(f.periods, p)
		} else {
			f.periods = append(f.periods, cutter.parts(p)...)
		}
	}
}

// joined joins the periods of all machines, with their rows and the order of these. Errors are ctx's.
func joined(ctx context.Context, before *known, machines []finding) (*known, error) {
	classes := before.classes.Clone()
	begin := make([]struct{ periods, seen int }, len(machines)+1) // of each machine
	for i := range machines {
		f, next := &machines[i], begin[i]
		f.rows = make([]row, len(f.periods))
		for n := range f.periods {
			f.rows[n] = f.periods[n].row(&classes)
		}
		next.periods, next.seen = next.periods+len(f.periods), next.seen+len(f.seen)
		for _, t := range f.gpus {
			next.periods, next.seen = next.periods+t.periods.end-t.periods.begin, next.seen+t.seen.end-t.seen.begin
		}
		begin[i+1] = next
	}
	end := begin[len(machines)]
	k := &known{periods: make([]Period, end.periods), rows: make([]row, end.periods), seen: make([]bounds, end.seen),
		classes: &classes}
	now := slices.Repeat([]int32{-1}, len(before.periods)) // the numbers of those that are taken over
	err := parallel.Each(ctx, len(machines), func(_ *struct{}, i int) {
		machines[i].join(k, before, begin[i].periods, begin[i].seen, now)
	})
	if err != nil {
		return nil, err
	}
	var fresh []ranked
	for i := range machines {
		fresh = append(fresh, machines[i].ranks...)
	}
	slices.SortFunc(fresh, ranked.compare)
	k.byLength = merged(before.byLength, now, fresh)
	return k, nil
}

// join puts the machine's periods into their place among all, and ranks those that were found.
func (f *finding) join(k, before *known, periods, seen int, now []int32) {
	found, shown := 0, 0
	for g := range f.gpus {
		t := &f.gpus[g]
		for n := t.periods.begin; n < t.periods.end; n++ {
			now[n] = int32(periods + n - t.periods.begin)
		}
		copy(k.rows[periods:], before.rows[t.periods.begin:t.periods.end])
		periods += copy(k.periods[periods:], before.periods[t.periods.begin:t.periods.end])
		seen += copy(k.seen[seen:], before.seen[t.seen.begin:t.seen.end])
		for ; found < len(f.periods) && int(f.periods[found].gpu) == g; found++ {
			r := &f.rows[found]
			if r.fate == complete || r.fate == censored {
				f.ranks = append(f.ranks, ranked{r.rank(), int32(periods)})
			}
			k.periods[periods], k.rows[periods] = f.periods[found], *r
			periods++
		}
		for ; shown < len(f.seen) && int(f.seen[shown].gpu) == g; shown++ {
			k.seen[seen] = f.seen[shown]
			seen++
		}
	}
}

// merged merges the ranks that are taken over, by the numbers that they have now, with others.
func merged(before []ranked, now []int32, fresh []ranked) []ranked {
	all := make([]ranked, 0, len(before)+len(fresh))
	for _, r := range before {
		if r.number = now[r.number]; r.number < 0 {
			continue
		}
		for ; len(fresh) > 0 && fresh[0].compare(r) < 0; fresh = fresh[1:] {
			all = append(all, fresh[0])
		}
		all = append(all, r)
	}
	return append(all, fresh...)
}

func (r ranked) compare(other ranked) int {
	return cmp.Or(cmp.Compare(r.rank, other.rank), cmp.Compare(r.number, other.number))
}
