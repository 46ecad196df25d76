package utilization

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/grafana/grafana-plugin-sdk-go/data"
	"gonum.org/v1/gonum/mathext"

	"github.com/chtc/gpureports/pkg/aggregate"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/linked"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/survival"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Machines on which jobs fail: the failures soon after the start of a run on each machine, compared with what jobs of
// the same users do elsewhere (methodology section 19).

const failures = "failures"

// begun is a start: a run that began in the window, and is known to have failed at once or not.
type begun struct {
	machine, gpu int32 // gpu: in Machine.GPUs, the run's first
	user         timeline.Symbol
	at           pool.Micros
	failure      runs.Failure // why, if it failed at once
}

// answerFailures answers the view failures. Without job ads it has no data.
func answerFailures(ctx context.Context, s *stores.Stores, p *query.Plan) (data.Frames, error) {
	o, err := linked.OpenExplained(ctx, s, p, "failures are known from job ads only")
	if err != nil {
		return nil, err
	}
	if !o.History.Sharp {
		o.About.Warn("without job ads it is not known which jobs fail. Set up a job source")
		return o.About.Finish(nil), nil
	}
	if !o.History.Clocks.Epochs {
		o.About.Info("without epoch ads, runs between two snapshots are missing, which are most of those that fail at "+
			"once. %s",
			jobs.WriteEpochs)
	}
	ofRows, ofStarts := aggregate.NewFilter(p, o.Names).Split(query.Grouping.OfGPU)
	starts, exits, err := startsOf(ctx, o, ofStarts)
	if err != nil {
		return nil, err
	}
	if exits.Lacking() {
		o.About.Warn("%d of %d job ads of completed runs lack ExitCode and ExitBySignal: failures that only these tell do "+
			"not count. `gpureports check` says how to get them", exits.Untold, exits.Completed)
	}
	o.About.Stat("Starts", "locale", float64(len(starts)))
	rows := failingRows(starts, slices.Contains(p.GroupBy, "gpu"), o.Names)
	rows = slices.DeleteFunc(rows, func(r *failing) bool {
		r.place = o.Observed.PlaceOn(r.machine, r.gpu, pool.DayOf(r.last))
		return !ofRows.Keeps(aggregate.KeyOf(r.place))
	})
	orderFailing(rows, o)
	return framesOfFailures(rows, o), nil
}

// startsOf finds the starts that filters of categories and users let pass, and how runs completed by their ads.
func startsOf(ctx context.Context, o *linked.Opening, chosen aggregate.Filter) (starts []begun, exits runs.Exits,
	err error) {
	w, short := o.Plan.Window, pool.Micros(o.Plan.Short*float64(pool.Minute))
	since := o.Observed.Since(w)
	add := func(m int, e *runs.Explained, hasProject bool) {
		if !w.Contains(e.Start) {
			return
		}
		key := aggregate.KeyOf(e.Place)
		if key.SetRow(e.Place.Ownership, e.Side, 0, e.User); hasProject {
			key[query.ByCategory] = uint32(pool.CategoryOf(e.Side, e.Place.Ownership, true))
		}
		if !chosen.Keeps(key) {
			return
		}
		// Without an ad, a run that snapshots show for long has not failed at once.
		told := e.Evidence == runs.JobAd
		if told && e.Outcome == runs.Completed {
			if exits.Completed++; e.Failure.Untold() {
				exits.Untold++
			}
		}
		b := begun{machine: int32(m), gpu: e.Leader, user: e.User, at: e.Start}
		switch {
		case told && e.End-e.Start <= short:
			b.failure = e.Failure
		case !told && (e.Last < e.First || o.Observed.View.Times[e.Last]-e.Start <= short):
			return
		}
		starts = append(starts, b)
	}
	for m := range parallel.Until(ctx, len(o.History.Machines)) {
		of := &o.History.Machines[m]
		for i := range of.Runs {
			if e := of.Runs[i].From(o.Observed, since); o.Observed.StartKnown(since, m, e) {
				add(m, e, e.Project != 0)
			}
		}
		for _, unseen := range [][]runs.Explained{of.Unseen, of.Apart} { // what fails at once is seldom seen
			for i := range unseen {
				add(m, &unseen[i], unseen[i].Place.Ownership == pool.ResearcherOwned)
			}
		}
	}
	return starts, exits, ctx.Err()
}

type tally struct{ starts, failures float64 }

// failing is a row: the starts on a machine, or on one of its GPUs.
type failing struct {
	machine, gpu int32 // gpu: the first by id among the starts
	tally
	expected float64 // NaN: nothing ran elsewhere
	suspect  float64 // 1: far more failures than expected
	users    map[timeline.Symbol]*tally
	reasons  map[runs.Failure]int

	last, lastFailure pool.Micros    // starts; frames.NoTime
	place             timeline.Place // where the GPU is on the day of the last start
}

// failingRows counts starts by machine, or also by GPU, and the failures that are expected. names: of symbols.
func failingRows(starts []begun, byGPU bool, names []string) []*failing {
	type pair struct {
		machine int32
		user    timeline.Symbol
	}
	// Count the starts of each row, and those that rows are compared with.
	onMachine, ofMachine, ofUser := map[pair]tally{}, map[int32]tally{}, map[timeline.Symbol]tally{}
	var all tally
	var keys pool.Numbered[[2]int32]
	var rows []*failing
	for _, s := range starts {
		one := tally{starts: 1}
		if s.failure.Failed() {
			one.failures = 1
		}
		all = all.plus(one)
		onMachine[pair{s.machine, s.user}] = onMachine[pair{s.machine, s.user}].plus(one)
		ofMachine[s.machine], ofUser[s.user] = ofMachine[s.machine].plus(one), ofUser[s.user].plus(one)
		key := [2]int32{s.machine, -1}
		if byGPU {
			key[1] = s.gpu
		}
		n := int(keys.Number(key))
		if n == len(rows) {
			rows = append(rows, &failing{machine: s.machine, gpu: s.gpu, users: map[timeline.Symbol]*tally{},
				reasons: map[runs.Failure]int{}, last: frames.NoTime, lastFailure: frames.NoTime})
		}
		rows[n].add(s, one)
	}
	// Judge each row by what happened elsewhere.
	for _, r := range rows {
		elsewhere := all.minus(ofMachine[r.machine])
		r.judge(names, func(user timeline.Symbol) float64 {
			same := ofUser[user].minus(onMachine[pair{r.machine, user}])
			p := (elsewhere.failures + 0.5) / (elsewhere.starts + 1)
			return (same.failures + 10*p) / (same.starts + 10)
		}, elsewhere.starts > 0)
	}
	return rows
}

func (t tally) plus(u tally) tally  { return tally{t.starts + u.starts, t.failures + u.failures} }
func (t tally) minus(u tally) tally { return tally{t.starts - u.starts, t.failures - u.failures} }

func (r *failing) add(s begun, one tally) {
	r.tally = r.tally.plus(one)
	r.gpu, r.last = min(r.gpu, s.gpu), max(r.last, s.at)
	of := pool.In(r.users, s.user)
	*of = of.plus(one)
	if s.failure.Failed() {
		r.reasons[s.failure]++
		r.lastFailure = max(r.lastFailure, s.at)
	}
}

// judge finds how many failures are expected, by the share of each user's starts elsewhere that fail, and whether the
// row is suspect: it has far more, and also without the user who exceeds what is expected most.
func (r *failing) judge(names []string, share func(user timeline.Symbol) float64, known bool) {
	if r.expected = math.NaN(); !known {
		return
	}
	users := slices.SortedFunc(maps.Keys(r.users), func(a, b timeline.Symbol) int {
		return strings.Compare(names[a], names[b])
	})
	r.expected = 0
	var worst tally // failures, and in place of starts how many are expected
	excess := math.Inf(-1)
	for _, user := range users {
		of := r.users[user]
		expected := of.starts * share(user)
		r.expected += expected
		if more := of.failures - expected; more > excess+1e-9 {
			excess, worst = more, tally{expected, of.failures}
		}
	}
	if r.failures >= 3 && atLeast(r.failures, r.expected) < 0.001 &&
		atLeast(r.failures-worst.failures, r.expected-worst.starts) < 0.01 {
		r.suspect = 1
	}
}

// atLeast is the probability of n or more of a Poisson number with a mean.
func atLeast(n, mean float64) float64 {
	if n <= 0 {
		return 1
	}
	return mathext.GammaIncReg(n, max(0, mean))
}

func (r *failing) usersOfFailures() (n float64) {
	for _, of := range r.users {
		if of.failures > 0 {
			n++
		}
	}
	return n
}

// commonest is the reason of most failures, of equally many the first bytewise; "" without failures.
func (r *failing) commonest() (text string) {
	most := 0
	for reason, n := range r.reasons {
		if said := string(reason); n > most || n == most && said < text {
			most, text = n, said
		}
	}
	return text
}

// ratio is a number of failures over those that are expected.
func (r *failing) ratio(n float64) float64 { return aggregate.Ratio(n, r.expected) }

// orderFailing puts suspect rows first, then those with most failures beyond the expected ones.
func orderFailing(rows []*failing, o *linked.Opening) {
	beyond := func(r *failing) float64 {
		if math.IsNaN(r.expected) {
			return 0
		}
		return r.failures - r.expected
	}
	slices.SortFunc(rows, func(a, b *failing) int {
		more := cmp.Compare(beyond(b), beyond(a))
		if math.Abs(beyond(b)-beyond(a)) <= 1e-9 {
			more = 0
		}
		return cmp.Or(cmp.Compare(b.suspect, a.suspect), more,
			strings.Compare(o.Names[a.place.Machine], o.Names[b.place.Machine]), strings.Compare(a.id(o), b.id(o)))
	})
}

// id is the id of the row's GPU.
func (r *failing) id(o *linked.Opening) string {
	return o.Names[o.Observed.Machines[r.machine].GPUs[r.gpu].ID]
}

var failureMetrics = aggregate.Metrics[failing]{
	aggregate.Define("starts", "Starts", query.Count, 0, "Runs that began in the time range, of which it is known "+
		"whether they failed at once", func(r *failing) float64 { return r.starts }),
	aggregate.Define(failures, "Failures", query.Count, 0, "Starts that failed within `shortMinutes` (10 by default): by an "+
		"exit code, a signal, a hold that the user did not ask for, or a fault",
		func(r *failing) float64 { return r.failures }),
	aggregate.Define("expected", "Expected failures", query.Count, 1, "Failures if each user's jobs failed as often as "+
		"on other machines; none: nothing ran elsewhere", func(r *failing) float64 { return r.expected }),
	aggregate.Define("ratio", "Times expected", query.Count, 1, "Failures / expected failures",
		func(r *failing) float64 { return r.ratio(r.failures) }),
	aggregate.Define("ratioLow", "Times expected, 95% low", query.Count, 1, "Lower bound of the 95% interval (Garwood)",
		func(r *failing) float64 { low, _ := survival.Garwood(int(r.failures)); return r.ratio(low) }),
	aggregate.Define("ratioHigh", "Times expected, 95% high", query.Count, 1, "Upper bound of the 95% interval (Garwood)",
		func(r *failing) float64 { _, high := survival.Garwood(int(r.failures)); return r.ratio(high) }),
	aggregate.Define("suspect", "Suspect", query.Count, 0, "1: far more failures than expected, of more than one user; "+
		"otherwise 0", func(r *failing) float64 { return r.suspect }),
	aggregate.Define("users", "Users", query.Count, 0, "Users whose runs failed", (*failing).usersOfFailures),
}

func framesOfFailures(rows frames.Rows[failing], o *linked.Opening) data.Frames {
	p := o.Plan.WithNulls()
	group := func(r *failing) []string { return []string{o.Names[r.place.Machine], r.id(o)}[:len(p.GroupBy)] }
	if len(p.Model.Metrics) == 1 {
		list := make([]frames.Row, len(rows))
		for i, r := range rows {
			list[i] = frames.Row{Group: group(r), Values: failureMetrics.Values(p.Metrics, r)}
		}
		return frames.Ordered(p, o.About, list)
	}
	rows = rows[:o.About.Shown(len(rows))]
	fields := frames.GroupColumns(p, frames.Each(rows, group))
	device := func(r *failing) string { return p.Shown("device", o.Names[r.place.Device]) }
	fields = append(fields, rows.Text("device", device))
	for i, figure := range failureMetrics.Functions(p.Metrics) {
		fields = append(fields, rows.Number(p.Metrics[i], figure))
	}
	commonest := rows.Words("commonest", func(r *failing) *string {
		if text := r.commonest(); text != "" {
			return &text
		}
		return nil
	})
	return frames.Columns(p, o.About, append(fields,
		rows.Time("lastFailure", func(r *failing) pool.Micros { return r.lastFailure }), commonest)...)
}
