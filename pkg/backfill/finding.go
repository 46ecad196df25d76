package backfill

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
)

// finding are the periods of a machine: of each GPU those that are what they were, and those that were found.
type finding struct {
	gpus    []taken
	rows    []row // numbers of bounds and classes are those of seen and classes
	seen    []bounds
	classes linked.Classes
	numbers []int32  // of each class among all
	ranks   []ranked // of those that are in statistics
}

// taken is what is taken over of a GPU's periods, by their numbers.
type taken struct {
	seen, rows stretch
	behind     int32 // the last snapshot of those that are taken over, −1 = none are
}

// stretch are the numbers from begin up to before end.
type stretch struct{ begin, end int }

// takeOver finds what of a machine's periods is what it was: of each GPU the first ones.
func (f *finding) takeOver(o *runs.Observed, before *known, same *runs.Same, machine int) {
	f.gpus = make([]taken, len(o.Machines[machine].GPUs))
	s := sort.Search(len(before.seen), func(i int) bool { return int(before.seen[i].machine) >= machine })
	r := 0
	upTo := func(seen int) int { // the rows before those of such bounds
		r += sort.Search(len(before.rows)-r, func(i int) bool { return int(before.rows[r+i].seen) >= seen })
		return r
	}
	for g := range f.gpus {
		t := &f.gpus[g]
		of := func(b *bounds) bool { return int(b.machine) == machine && int(b.gpu) == g }
		t.behind, t.seen.begin, t.rows.begin = -1, s, upTo(s)
		for ; s < len(before.seen) && of(&before.seen[s]) && before.seen[s].same(o, same); s++ {
			t.behind = before.seen[s].last
		}
		t.seen.end, t.rows.end = s, upTo(s)
		for ; s < len(before.seen) && of(&before.seen[s]); s++ {
		}
	}
}

// same reports whether the period at these bounds, and the runs that bound it, are what they were.
func (b *bounds) same(o *runs.Observed, same *runs.Same) bool {
	next, machine := b.last+1, int(b.machine)
	return int(next) < o.End && same.Before(machine, next, o.View.Times[next]) && same.Run(machine, b.startRun) &&
		same.Run(machine, b.endRun)
}

// explain makes rows of the periods that snapshots show.
func (f *finding) explain(o *runs.Observed, of *runs.Known, m measure, found []Period) {
	if len(found) == 0 {
		return
	}
	machine := &of.Machines[found[0].machine]
	cutter := cutter{measure: m, observed: o, explained: of.Explanations}
	f.rows = make([]row, 0, len(found)+len(machine.Unseen)) // which cut most into two
	f.seen = make([]bounds, len(found))
	for i := range found {
		p := &found[i]
		f.seen[i] = p.bounds
		class := f.classes.Number(linked.Class{Place: p.Place, Project: p.Project})
		if of.Sharp {
			p.sharpen(o, machine)
		}
		if p.open {
			f.rows = append(f.rows, p.row(class, int32(i)))
			continue
		}
		parts := cutter.parts(*p)
		for n := range parts {
			f.rows = append(f.rows, parts[n].row(class, int32(i)))
		}
	}
}

// joined joins the periods of all machines, and brings them into order. Errors are ctx's.
func joined(ctx context.Context, before *known, machines []finding) (*known, error) {
	classes := before.classes.Clone()
	begin := make([]struct{ rows, seen int }, len(machines)+1) // of each machine
	for i := range machines {
		f, next := &machines[i], begin[i]
		for _, c := range f.classes.All {
			f.numbers = append(f.numbers, classes.Number(c))
		}
		next.rows, next.seen = next.rows+len(f.rows), next.seen+len(f.seen)
		for _, t := range f.gpus {
			next.rows, next.seen = next.rows+t.rows.end-t.rows.begin, next.seen+t.seen.end-t.seen.begin
		}
		begin[i+1] = next
	}
	end := begin[len(machines)]
	k := &known{rows: make([]row, end.rows), seen: make([]bounds, end.seen), classes: &classes}
	now := slices.Repeat([]int32{-1}, len(before.rows)) // the numbers of those that are taken over
	err := parallel.Each(ctx, len(machines), func(_ *struct{}, i int) {
		machines[i].join(k, before, begin[i].rows, begin[i].seen, now)
	})
	if err != nil {
		return nil, err
	}
	var fresh []ranked
	for i := range machines {
		fresh = append(fresh, machines[i].ranks...)
	}
	sorted := make([]ranked, len(fresh)) // their numbers ascend
	for i, n := range runs.Order(len(fresh), func(i int) pool.Micros { return pool.Micros(fresh[i].rank) }) {
		sorted[i] = fresh[n]
	}
	k.byLength = merged(before.byLength, now, sorted)
	return k, nil
}

// join puts the machine's periods into their place among all, and ranks those that were found.
func (f *finding) join(k, before *known, rows, seen int, now []int32) {
	found, shown := 0, 0
	add := func(r row, moved int) {
		r.seen += int32(moved)
		k.rows[rows] = r
		rows++
	}
	for g := range f.gpus {
		t := &f.gpus[g]
		for n := t.rows.begin; n < t.rows.end; n++ {
			now[n] = int32(rows)
			add(before.rows[n], seen-t.seen.begin)
		}
		seen += copy(k.seen[seen:], before.seen[t.seen.begin:t.seen.end])
		for ; found < len(f.rows) && int(f.seen[f.rows[found].seen].gpu) == g; found++ {
			r := f.rows[found]
			if r.fate == complete || r.fate == censored {
				f.ranks = append(f.ranks, ranked{r.rank(), int32(rows)})
			}
			r.class = f.numbers[r.class]
			add(r, seen-shown)
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
	if r.rank != other.rank {
		return cmp.Compare(r.rank, other.rank)
	}
	return cmp.Compare(r.number, other.number)
}
