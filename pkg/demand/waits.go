package demand

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/pressure"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Outcome is how a wait ended.
type Outcome uint8

const (
	Waiting Outcome = iota // the newest poll sees the job idle
	Started                // a run of the job began
	Left                   // it was removed or held, or runs on machines that the snapshots do not show
	Unknown                // a poll gap hides the end
)

// Wait is a time in which a job waited for GPUs (methodology section 14).
type Wait struct {
	Job     timeline.Job
	Owner   timeline.Symbol
	Project timeline.Symbol // a list of projects is one value
	Schedd  timeline.Symbol
	Request pressure.Request

	Begin, End  pool.Micros
	First, Last pool.Micros // the polls that saw the job idle; Last < First: none did, an ad alone shows the wait
	Known       pool.Micros // from when on it is under observation
	Counted     pool.Micros // from when on it counts in averages
	Outcome     Outcome
	Attempts    int         // runs of the job that began before First
	Ran         pool.Micros // length of the run that ended it, if that is known whole; else 0
	RanUntil    pool.Micros // its end
}

// AdOnly reports whether no poll saw the wait.
func (w *Wait) AdOnly() bool { return w.Last < w.First }

// sees reports whether the wait is one at a poll.
func (w *Wait) sees(poll pool.Micros) bool { return w.First <= poll && poll <= w.Last }

// Run is a run of a job on either side. A start or end that no ad has is the middle of the snapshots between which it
// lies.
type Run struct {
	Start, End pool.Micros
	Whole      bool // its end is known: it neither goes on nor was lost
}

// sortRuns puts a job's runs into the order in which they began.
func sortRuns(all []Run) {
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
}

// stretch is a time in which polls saw a job idle.
type stretch struct {
	first, last pool.Micros
	row         *pressure.Row
	started     *Run // the run that cut the row here
}

// waitsOf makes the waits of one job, of its rows and its runs, both in the order of time. withAds says that there are
// job ads: then short waits are known as well, and a first wait is under observation from its beginning.
func waitsOf(p *Polls, rows []*pressure.Row, runs []Run, requests []pressure.Request, withAds bool) []Wait {
	waits := make([]Wait, 0, len(rows))
	for i, s := range join(p, split(p, rows, runs), runs) {
		r := s.row
		w := Wait{Job: r.Job, Owner: r.Owner, Project: r.Project, Schedd: r.Schedd, Request: requests[r.Request],
			First: s.first, Last: s.last, Known: s.first}
		w.Attempts, _ = slices.BinarySearchFunc(runs, s.first,
			func(run Run, t pool.Micros) int { return cmp.Compare(run.Start, t) })
		switch goesOn := i > 0 && waits[i-1].Outcome == Unknown && !between(runs, waits[i-1].Last, s.first); {
		case goesOn:
			w.Begin, w.Counted = waits[i-1].Begin, s.first
		case i == 0 && w.Attempts == 0 && r.QDate != 0:
			w.Begin = min(micros(r.QDate), s.first)
			if withAds && p.Covers(w.Begin) {
				w.Known = w.Begin
			}
			w.Counted = w.Begin
		default:
			w.Begin = beginOf(p, s.first, runs[:w.Attempts])
			w.Counted = w.Begin
		}
		w.end(p, s, runs)
		waits = append(waits, w)
	}
	return waits
}

// split cuts rows where a run began and ended inside: the poller did not open a new row.
func split(p *Polls, rows []*pressure.Row, runs []Run) []stretch {
	var all []stretch
	for _, r := range rows {
		first, last := micros(r.First), micros(r.Last)
		for i := range runs {
			if run := &runs[i]; run.Start > first && run.End < last {
				all = append(all, stretch{first, p.Times[p.upTo(run.Start)], r, run})
				first = p.Times[p.from(run.End)]
			}
		}
		all = append(all, stretch{first, last, r, nil})
	}
	return all
}

// join makes one of stretches that follow each other soon, without a run between them.
func join(p *Polls, all []stretch, runs []Run) []stretch {
	joined := all[:0]
	for _, s := range all {
		if n := len(joined) - 1; n >= 0 && joined[n].started == nil &&
			s.first-joined[n].last <= joining*p.Cadence(joined[n].last) && !between(runs, joined[n].last, s.first) {
			joined[n].last, joined[n].started = max(joined[n].last, s.last), s.started
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// between reports whether a run was seen between the polls that saw the job idle.
func between(runs []Run, last, first pool.Micros) bool {
	return slices.ContainsFunc(runs, func(r Run) bool { return r.End > last && r.Start < first })
}

// beginOf is when a wait began that is not the job's first: at the end of the run before it, if that lies between the
// poll before the first one that saw the job idle and this one.
func beginOf(p *Polls, first pool.Micros, before []Run) pool.Micros {
	var end pool.Micros
	for _, r := range before {
		end = max(end, r.End)
	}
	if i := p.from(first); end <= first && end > 0 && (i == 0 || end > p.Times[i-1]) {
		return end
	}
	return first
}

// end finds how the wait ended.
func (w *Wait) end(p *Polls, s stretch, runs []Run) {
	run := s.started
	if run == nil {
		cadence := p.Cadence(w.Last)
		i := slices.IndexFunc(runs, func(r Run) bool {
			return r.Start > w.First && r.Start > w.Last-cadence && r.Start <= w.Last+joining*cadence
		})
		if i >= 0 {
			run = &runs[i]
		}
	}
	switch {
	case run != nil:
		w.started(run)
	case p.isNewest(w.Last):
		w.Outcome, w.End = Waiting, w.Last
	case p.gapAfter(w.Last):
		w.Outcome, w.End = Unknown, w.Last
	default:
		w.Outcome, w.End = Left, w.Last
	}
}

func (w *Wait) started(run *Run) {
	w.Outcome, w.End = Started, run.Start
	if run.Whole {
		w.Ran, w.RanUntil = max(0, run.End-run.Start), run.End
	}
}

// overlaps reports whether the wait overlaps a window.
func (w *Wait) overlaps(window pool.Window) bool { return w.Begin <= window.To && w.End >= window.From }
