package evictions

import (
	"context"

	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// table holds all backfill runs by machine and first snapshot, a machine's unseen ones behind its others: what does not
// depend on a window is made once for as long as the same is known of runs.
type table struct {
	rows    []row
	classes *linked.Classes
	parts   [][]int32 // of each machine: the row with which each part of its explained runs begins, and its unseen ones
}

// row is an explained run without what only lists show.
type row struct {
	Begin, End  pool.Micros // as all that is observed shows it
	User        timeline.Symbol
	UnknownCode int32
	class       int32
	machine     int32
	number      int32 // in the machine's explained runs; of unseen ones among these
	first, last int32 // the snapshots that show it
	gpus        int32
	Outcome     runs.Outcome
	Cause       runs.Cause
	Evidence    runs.Evidence
	Link        runs.Link
	clamped     bool
	startByAd   bool
	unseen      bool
}

// tableOf returns the backfill runs. Errors are ctx's.
func tableOf(ctx context.Context, known *runs.Known) (*table, error) {
	type key struct{}
	return runs.DerivedAgain(ctx, known, key{}, func(before *table, same *runs.Same) (*table, error) {
		if same == nil {
			return newTable(ctx, known, &table{classes: &linked.Classes{}}, func(int, int) bool { return false })
		}
		return newTable(ctx, known, before, same.Part)
	})
}

// newTable lists the backfill runs. Those of the parts that are the same are taken over from an earlier table.
func newTable(ctx context.Context, known *runs.Known, before *table, same func(machine, part int) bool) (*table,
	error) {
	classes := before.classes.Clone()
	t := &table{classes: &classes, parts: make([][]int32, len(known.Machines))}
	room := len(before.rows) + len(before.rows)/64
	if len(before.rows) == 0 {
		room = onBackfill(known)
	}
	t.rows = make([]row, 0, room)
	for m := range known.Machines {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		of := &known.Machines[m]
		t.parts[m] = make([]int32, of.Runs.Parts()+1)
		for p := range of.Runs.Parts() {
			t.parts[m][p] = int32(len(t.rows))
			if same(m, p) {
				t.rows = append(t.rows, before.rows[before.parts[m][p]:before.parts[m][p+1]]...)
				continue
			}
			part, first := of.Runs.Part(p)
			for i := range part {
				t.add(m, first+i, &part[i], false)
			}
		}
		t.parts[m][of.Runs.Parts()] = int32(len(t.rows))
		for i := range of.Unseen {
			t.add(m, i, &of.Unseen[i], true)
		}
	}
	return t, nil
}

// onBackfill is how many runs are on backfill, at most.
func onBackfill(known *runs.Known) (n int) {
	for m := range known.Machines {
		for _, e := range known.Machines[m].Runs.All() {
			if e.Side == pool.Backfill {
				n++
			}
		}
		n += len(known.Machines[m].Unseen)
	}
	return n
}

// newestFirst returns the numbers of the rows by their end, the latest first. Errors are ctx's.
func newestFirst(ctx context.Context, known *runs.Known, t *table) ([]int32, error) {
	type key struct{}
	return runs.Derived(ctx, known, key{}, func() ([]int32, error) {
		return runs.Order(len(t.rows), func(i int) pool.Micros { return -t.rows[i].End }), nil
	})
}

// add adds a machine's run by its number, if it is on backfill.
func (t *table) add(machine, number int, e *runs.Explained, unseen bool) {
	if e.Side != pool.Backfill {
		return
	}
	t.rows = append(t.rows, row{Begin: e.Start, End: e.End, User: e.User, UnknownCode: e.UnknownCode,
		class: t.classes.Number(linked.Class{Place: e.Place, Project: e.Project}), machine: int32(machine),
		number: int32(number), first: e.First, last: e.Last, gpus: int32(len(e.GPUs)), Outcome: e.Outcome, Cause: e.Cause,
		Evidence: e.Evidence, Link: e.Link, clamped: e.Clamped, startByAd: e.StartByAd, unseen: unseen})
}

// explained is the run of a row.
func (r *row) explained(x *runs.Explanations) *runs.Explained {
	if r.unseen {
		return &x.Machines[r.machine].Unseen[r.number]
	}
	return x.Machines[r.machine].Runs.At(int(r.number))
}

// share counts the runs of a window that have an ad, of those that are due.
func (t *table) share(w pool.Window, now pool.Micros) (s linked.Share) {
	for i := range t.rows {
		r := &t.rows[i]
		if !r.unseen && r.Outcome != runs.Running && linked.Due(r.End, now) && r.Begin <= w.To && r.End >= w.From {
			s.Add(r.Link.Linked())
		}
	}
	return s
}

// Run is a run on backfill as a window shows it.
type Run struct {
	*row
	Start  pool.Micros
	Until  pool.Micros  // its end, cut to the window
	Result runs.Outcome // Running when it ends after the window
	Inside pool.Micros  // its time in the window
}

// Whole is the run's length until Until; where clocks differ by more than it, 0.
func (r *Run) Whole() pool.Micros { return max(0, r.Until-r.Start) }

// gpuHours is a length of the run times its GPUs.
func (r *Run) gpuHours(d pool.Micros) float64 { return pool.Hours(d) * float64(r.gpus) }

// looking is how a window looks at the table.
type looking struct {
	*table
	observed *runs.Observed
	window   pool.Window
	since    int32
	until    pool.Micros // the end of runs that go on at the end of the data
}

func (t *table) in(o *runs.Observed, w pool.Window) looking {
	l := looking{table: t, observed: o, window: w, since: o.Since(w), until: w.To}
	if n := len(o.View.Times); o.End == n && n > 0 && w.To-o.View.Times[n-1] > o.View.GapLimit(n-1) {
		l.until = o.View.Times[n-1]
	}
	return l
}

// show shows a row in the window; false if it does not overlap it.
func (l *looking) show(r *row, as *Run) bool {
	w, start, until, result := l.window, r.Begin, r.End, r.Outcome
	if r.first < l.since && r.last >= l.since && !r.startByAd {
		start = l.observed.View.Times[l.since]
	}
	if result == runs.Running {
		until = max(l.until, start)
	}
	if until > w.To {
		until, result = w.To, runs.Running
	}
	if start > w.To || until < w.From {
		return false
	}
	as.row, as.Start, as.Until, as.Result = r, start, until, result
	as.Inside = max(0, until-max(start, w.From))
	return true
}

// each yields the runs that overlap the window and pass the filter of groups, if there are any, by machine and first
// snapshot. A run is good until the next one. An error of yield ends it, and so does ctx.
func (l *looking) each(ctx context.Context, g *groups, yield func(number int32, r *Run) error) error {
	var as Run
	for i := range l.rows {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := &l.rows[i]
		if !l.show(r, &as) || g != nil && !g.passes(r) {
			continue
		}
		if err := yield(int32(i), &as); err != nil {
			return err
		}
	}
	return nil
}
