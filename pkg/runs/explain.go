package runs

import (
	"cmp"
	"context"
	"slices"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Ads are the job ads that are known. Nil = none.
type Ads struct {
	Jobs     map[timeline.Job][]jobs.Ad    // by GlobalJobId
	Machines map[timeline.Symbol][]jobs.Ad // by machine, for runs without a GlobalJobId
}

// Explanations are runs with what ads say about them.
type Explanations struct {
	Machines []Explanation // as Observed.Machines
}

// Explanation holds one machine's explained runs.
type Explanation struct {
	Runs []Explained
	of   map[int32]int32 // Machine.Runs → the first of its explained runs
}

// Of returns the explained run that holds a run's GPUs at a snapshot, nil when the run was not asked for.
func (x *Explanation) Of(run, snapshot int32) *Explained {
	i, ok := x.of[run]
	if !ok {
		return nil
	}
	for e := &x.Runs[i]; ; e = &x.Runs[i] {
		if snapshot <= e.Last || int(i)+1 == len(x.Runs) {
			return e
		}
		i++
	}
}

// Wanted chooses runs by the numbers of their machine and run.
type Wanted func(machine, run int) bool

// Explain tells times, outcome and cause of the wanted runs. All pieces of a job on a machine are
// explained together.
func (o *Observed) Explain(ctx context.Context, ads *Ads, wanted Wanted) (*Explanations, error) {
	if ads == nil {
		ads = &Ads{}
	}
	x := &Explanations{Machines: make([]Explanation, len(o.Machines))}
	err := Parallel(ctx, len(o.Machines), func(m int) { x.Machines[m] = o.explain(m, ads, wanted) })
	if err != nil {
		return nil, err
	}
	return x, o.reappeared(ctx, x)
}

func (o *Observed) explain(number int, ads *Ads, wanted Wanted) Explanation {
	m, names := &o.Machines[number], o.View.Names.Texts()
	l := linker{observed: o, machine: m, name: names[m.Name], ids: make([]string, len(m.GPUs))}
	for g := range m.GPUs {
		l.ids[g] = names[m.GPUs[g].ID]
	}
	x := Explanation{of: map[int32]int32{}}
	var known []record // of the machine
	for _, ad := range ads.Machines[m.Name] {
		known = append(known, recordOf(&ad))
	}
	var withAds []int32 // runs whose job has ads, or that may be found by machine and time
	var interrupted []*Run
	hasAds := func(run *Run) bool { return len(ads.Jobs[run.Job]) > 0 || run.Job.IsNone() && len(known) > 0 }
	for i := range m.Runs {
		if run := &m.Runs[i]; run.Ending == Interrupted && wanted(number, i) && hasAds(run) {
			interrupted = append(interrupted, run)
		}
	}
	continues := func(run *Run) bool {
		return slices.ContainsFunc(interrupted, func(r *Run) bool { return run.First > r.First && compareClaims(run, r) == 0 })
	}
	for i := range m.Runs {
		run := &m.Runs[i]
		if !wanted(number, i) && !continues(run) {
			continue
		}
		if hasAds(run) {
			withAds = append(withAds, int32(i))
			continue
		}
		x.of[int32(i)] = int32(len(x.Runs))
		x.Runs = append(x.Runs, l.part(part{run: run, first: run.First, last: run.Last}, nil))
	}
	slices.SortStableFunc(withAds, func(a, b int32) int { return compareClaims(&m.Runs[a], &m.Runs[b]) })
	for len(withAds) > 0 {
		n := 1
		for n < len(withAds) && compareClaims(&m.Runs[withAds[0]], &m.Runs[withAds[n]]) == 0 {
			n++
		}
		pieces := make([]*Run, n)
		for i, r := range withAds[:n] {
			pieces[i] = &m.Runs[r]
		}
		var explained []Explained
		if job := pieces[0].Job; job.IsNone() {
			explained = l.withoutID(pieces, known)
		} else {
			records := make([]record, len(ads.Jobs[job]))
			for i := range records {
				records[i] = recordOf(&ads.Jobs[job][i])
			}
			explained = l.explain(pieces, records)
		}
		for _, r := range withAds[:n] {
			at := slices.IndexFunc(explained, func(e Explained) bool { return e.Last >= m.Runs[r].First })
			x.of[r] = int32(len(x.Runs) + at)
		}
		x.Runs = append(x.Runs, explained...)
		withAds = withAds[n:]
	}
	return x
}

// compareClaims orders runs by what makes them pieces of one: side and job; without a GlobalJobId user and GPU.
func compareClaims(a, b *Run) int {
	c := cmp.Or(cmp.Compare(a.Side, b.Side), cmp.Compare(a.Job.Schedd, b.Job.Schedd), cmp.Compare(a.Job.Cluster, b.Job.Cluster),
		cmp.Compare(a.Job.Proc, b.Job.Proc), cmp.Compare(a.Job.QDate, b.Job.QDate))
	if c == 0 && a.Job.IsNone() {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.GPUs[0], b.GPUs[0]))
	}
	return c
}
