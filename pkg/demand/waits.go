package demand

import (
	"cmp"
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
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
	Request queues.Request

	Begin, End  pool.Micros
	First, Last pool.Micros // the polls that saw the job idle; Last < First if none did
	Known       pool.Micros // from when on it is under observation
	Counted     pool.Micros // from when on it counts in averages
	Ran         pool.Micros // length of the run that ended it, if its whole length is known; otherwise 0
	RanUntil    pool.Micros // its end
	Attempts    int32       // runs of the job that began before First
	Outcome     Outcome
	Elsewhere   bool            // the run that ended it is on a machine outside the snapshots
	AdOnly      bool            // only an ad shows it
	NoList      bool            // the projects of a wait that only an ad shows are not known
	RunOn       timeline.Symbol // machine of the run that ended it; 0 = not known
}

// sees reports whether the wait is one at a poll.
func (w *Wait) sees(poll pool.Micros) bool { return w.First <= poll && poll <= w.Last }

// Run is a run of a job on either side. A time that no ad has is the middle of the snapshots between which it lies.
type Run struct {
	Start, End pool.Micros
	Seen       pool.Micros     // the first snapshot, or poll, that shows it; 0 if only an ad does
	Estimated  bool            // Start is not known from an ad
	Whole      bool            // its end is known: it is neither unfinished nor lost
	Elsewhere  bool            // only the poller saw it, on a machine outside the snapshots
	Machine    timeline.Symbol // 0 = not known
}

// seenBy reports whether a snapshot or poll up to a moment shows the run.
func (r *Run) seenBy(t pool.Micros) bool { return r.Seen != 0 && r.Seen <= t }

// beginsAfter reports whether a run begins after a poll that saw the job idle. An estimated start can lie before it.
func (r *Run) beginsAfter(poll pool.Micros) bool {
	return r.Start > poll || r.Estimated && !r.seenBy(poll)
}

// begunBefore reports whether a run was there before a poll that saw the job idle.
func (r *Run) begunBefore(poll pool.Micros) bool {
	return r.Start < poll && (r.Seen <= poll || r.End <= poll)
}

// sortRuns puts a job's runs into the order in which they began.
func sortRuns(all []Run) {
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
}

type stretch struct {
	first, last pool.Micros
	row         *queues.Row
	begin       pool.Micros // end of the run that cut the row before it; 0 if there is none
	started     *Run        // the run that cut the row at its end; nil if there is none
}

// waitsOf builds the waits of one job from its rows and its runs, both in chronological order. withAds says that there
// are job ads: then short waits are known as well, and a first wait is under observation from its beginning.
func waitsOf(p *Polls, rows []*queues.Row, runs []Run, requests [][]queues.Request, withAds bool) []Wait {
	waits := make([]Wait, 0, len(rows))
	for _, s := range join(p, split(p, rows, runs), runs) {
		r, i := s.row, len(waits)
		w := Wait{Job: r.Job, Owner: r.Owner, Project: r.Project, Schedd: r.Schedd, Request: requests[r.File][r.Request],
			First: s.first, Last: s.last, Known: s.first}
		for _, run := range runs {
			if run.Start < s.first && !run.Elsewhere {
				w.Attempts++
			}
		}
		// Find the run that ended the wait.
		run := s.started
		if run == nil {
			run = w.ender(p, runs)
		}
		// Find when the wait began, and from when on it counts.
		switch resumed := i > 0 && waits[i-1].Outcome == Unknown && !between(p, runs, waits[i-1].Last, s.first); {
		case resumed:
			w.Begin, w.Counted = waits[i-1].Begin, s.first
		case s.begin != 0:
			w.Begin, w.Counted = s.begin, s.begin
		case i == 0 && r.QDate != 0 && !ranBefore(runs, s.first, run):
			w.Begin = min(micros(r.QDate), s.first)
			if withAds && p.Covers(w.Begin) {
				w.Known = w.Begin
			}
			w.Counted = w.Begin
		default:
			w.Begin = beginOf(p, runs, s.first)
			w.Counted = w.Begin
		}
		if s.started != nil && s.started.Start < w.Begin {
			continue // what a run cuts off would be shorter than nothing
		}
		w.end(p, run)
		waits = append(waits, w)
	}
	return waits
}

// split cuts rows at the runs that began and ended inside, because the poller did not open a new row. Of runs that
// overlap or touch, the wait continues at the latest end. Two runs between two polls leave a part that no poll saw:
// it is first seen at its end, e.g. runs 12:03–12:08 and 12:20–12:25 between the polls of 12:00 and 12:30 leave the
// wait 12:08–12:20.
func split(p *Polls, rows []*queues.Row, runs []Run) []stretch {
	var all []stretch
	for _, r := range rows {
		last := micros(r.Last)
		part := stretch{first: micros(r.First), row: r}
		for i := range runs {
			run := &runs[i]
			switch {
			case !run.beginsAfter(micros(r.First)) || run.End > last:
			case part.begin != 0 && run.Start <= part.begin:
				part.begin = max(part.begin, run.End)
			default:
				all = append(all, part.until(p, run))
				part = stretch{row: r, begin: run.End}
			}
		}
		if part.begin != 0 {
			part.first = p.Times[p.from(part.begin)]
		}
		part.last = last
		all = append(all, part)
	}
	return all
}

// until ends a part of a row at the start of a run. No poll saw the job idle if the last one lies before the part.
func (s stretch) until(p *Polls, run *Run) stretch {
	if s.begin != 0 {
		s.first = min(p.Times[p.from(s.begin)], run.Start)
	}
	s.last, s.started = 0, run
	if i := p.upTo(run.Start); i >= 0 {
		s.last = p.Times[i]
	}
	return s
}

// join makes one of stretches that follow each other soon, without a run between them.
func join(p *Polls, all []stretch, runs []Run) []stretch {
	joined := all[:0]
	for _, s := range all {
		if n := len(joined) - 1; n >= 0 && joined[n].started == nil &&
			s.first-joined[n].last <= joining*p.Cadence(joined[n].last) && !between(p, runs, joined[n].last, s.first) {
			joined[n].last, joined[n].started = max(joined[n].last, s.last), s.started
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// between reports whether a run was seen between the polls that saw the job idle: one that could end a wait at last. A
// run that began long before is none, because the poll at last contradicts it: if a poller extends a running row
// over polls at which the job was idle, the idle rows are joined.
func between(p *Polls, runs []Run, last, first pool.Micros) bool {
	cadence := p.Cadence(last)
	return slices.ContainsFunc(runs, func(r Run) bool {
		return r.End > last && r.Start > last-cadence && r.begunBefore(first)
	})
}

// ranBefore reports whether a run, other than the one that ends the wait, was there before a poll that saw the job
// idle.
func ranBefore(runs []Run, poll pool.Micros, ender *Run) bool {
	for i := range runs {
		if runs[i].begunBefore(poll) && &runs[i] != ender {
			return true
		}
	}
	return false
}

// beginOf returns when a wait began that is not the job's first: at the end of the run before it, if that lies between
// the previous poll and the first one that saw the job idle. The first poll has no previous one.
func beginOf(p *Polls, runs []Run, first pool.Micros) pool.Micros {
	ended := pool.Micros(0)
	for _, r := range runs {
		if r.End <= first {
			ended = max(ended, r.End)
		}
	}
	if i := p.from(first); i > 0 && ended > p.Times[i-1] {
		return ended
	}
	return first
}

// ender returns the run that ended the wait; nil if none did. One that was seen by the first poll is before the wait.
func (w *Wait) ender(p *Polls, runs []Run) *Run {
	cadence := p.Cadence(w.Last)
	until := max(w.Last+joining*cadence, p.heldFrom(w.Last).to)
	i := slices.IndexFunc(runs, func(r Run) bool {
		return r.End > w.First && r.Start > w.Last-cadence && r.Start <= until && !r.seenBy(w.First)
	})
	if i < 0 {
		return nil
	}
	return &runs[i]
}

// end finds how the wait ended: with a run, or without one (nil).
func (w *Wait) end(p *Polls, run *Run) {
	switch {
	case run != nil:
		w.started(run)
	case w.Last == p.newest():
		w.Outcome, w.End = Waiting, w.Last
	case p.heldFrom(w.Last).to == 0:
		w.Outcome, w.End = Unknown, w.Last
	default:
		w.Outcome, w.End = Left, w.Last
	}
}

func (w *Wait) started(run *Run) {
	w.Outcome, w.End, w.Elsewhere, w.RunOn = Started, max(run.Start, w.Begin), run.Elsewhere, run.Machine
	w.Known = min(w.Known, w.End) // an estimated start can lie before the poll that saw the job
	if run.Whole {
		w.Ran, w.RanUntil = max(0, run.End-run.Start), run.End
	}
}

// overlaps reports whether the wait overlaps a window, by the time that counts.
func (w *Wait) overlaps(window pool.Window) bool {
	return w.Counted <= window.To && w.End >= window.From
}
