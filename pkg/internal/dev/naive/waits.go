// Package naive computes waits as methodology section 14 reads, sentence by sentence, with plain loops over all rows,
// polls and runs: tests compare the product with it. Times are microseconds since 1970 (UTC).
package naive

import (
	"math"
	"slices"
	"sort"
)

// Row is a row of a queue file.
type Row struct {
	Job                 string
	First, Last, Queued int64
	Running             bool
}

// Run is a run of a job.
type Run struct {
	Start, End int64
	Seen       int64 // the first snapshot or poll that shows it; 0 = none does
	Estimated  bool  // no ad tells Start
	Whole      bool
	Elsewhere  bool // only a running row shows it
}

// sawBy reports whether a snapshot or poll up to t shows the run.
func (r *Run) sawBy(t int64) bool { return r.Seen > 0 && r.Seen <= t }

// Queues are all rows, and their polls.
type Queues struct {
	Rows  []Row
	Polls []int64
	known map[int]bool
}

// New finds the polls of rows.
func New(rows []Row) *Queues {
	n := &Queues{Rows: rows, Polls: []int64{}, known: map[int]bool{}}
	seen := map[int64]bool{}
	for _, r := range rows {
		for _, t := range []int64{r.First, r.Last} {
			if !seen[t] {
				seen[t] = true
				n.Polls = append(n.Polls, t)
			}
		}
	}
	slices.Sort(n.Polls)
	return n
}

const (
	minute = int64(60e6)
	day    = 24 * 60 * minute
)

// Cadence is the cadence of t's UTC day.
func (n *Queues) Cadence(t int64) float64 {
	var distances []int64
	for i := 1; i < len(n.Polls); i++ {
		if n.Polls[i]/day == t/day && n.Polls[i-1]/day == t/day {
			distances = append(distances, n.Polls[i]-n.Polls[i-1])
		}
	}
	if len(distances) < 8 {
		return float64(30 * minute)
	}
	slices.Sort(distances)
	k := len(distances)
	return float64(distances[(k-1)/2]+distances[k/2]) / 2
}

// Known reports whether the time between the i-th poll and the next one is covered.
func (n *Queues) Known(i int) bool {
	known, asked := n.known[i]
	if !asked {
		known = n.isKnown(i)
		n.known[i] = known
	}
	return known
}

func (n *Queues) isKnown(i int) bool {
	if float64(n.Polls[i+1]-n.Polls[i]) <= 3*n.Cadence(n.Polls[i]) {
		return true
	}
	for _, r := range n.Rows {
		if r.First <= n.Polls[i] && r.Last >= n.Polls[i+1] {
			return true
		}
	}
	return false
}

// Wait is a wait of a job.
type Wait struct {
	Begin, End, First, Last, Counted int64
	Attempts                         int
	Outcome                          string
	Ran, RanUntil                    int64 // of the run that ended it, if it is whole
	Elsewhere                        bool
	AtQDate                          bool // it is the job's first wait, and no run was seen before
}

// pollFrom is the first poll at or after t.
func (n *Queues) pollFrom(t int64) int64 {
	for _, p := range n.Polls {
		if p >= t {
			return p
		}
	}
	return math.MaxInt64
}

// withElsewhere adds the runs of running rows that no other run explains.
func (n *Queues) withElsewhere(job string, runs []Run) []Run {
	all := slices.Clone(runs)
	for _, r := range n.Rows {
		overlaps := slices.ContainsFunc(runs, func(run Run) bool {
			return run.Start <= r.Last && float64(run.End) >= float64(r.First)-n.Cadence(r.First)
		})
		if r.Job != job || !r.Running || overlaps {
			continue
		}
		start := float64(r.First)
		for _, p := range n.Polls {
			if p < r.First {
				start = float64(p+r.First) / 2
			}
		}
		all = append(all, Run{Start: int64(start), End: r.Last, Seen: r.First, Estimated: true, Elsewhere: true})
	}
	sort.SliceStable(all, func(i, k int) bool {
		return all[i].Start < all[k].Start || all[i].Start == all[k].Start && all[i].End < all[k].End
	})
	return all
}

// Waits are the waits of a job with these runs.
func (n *Queues) Waits(job string, runs []Run) (all []Wait) { //nolint:cyclop,funlen // rules in sequence
	runs = n.withElsewhere(job, runs)
	type piece struct {
		first, last, queued int64
		begin               int64 // end of the runs before it; 0: none of them is in the row
		run                 *Run
	}
	var pieces []piece
	for _, r := range n.Rows {
		if r.Job != job || r.Running {
			continue
		}
		type block struct { // runs that overlap or touch
			run *Run
			end int64
		}
		var blocks []block
		for i := range runs {
			run := &runs[i]
			after := run.Start > r.First
			if run.Estimated && !run.sawBy(r.First) {
				after = true // the poll saw the job idle
			}
			if !after || run.End > r.Last {
				continue
			}
			if k := len(blocks) - 1; k >= 0 && run.Start <= blocks[k].end {
				blocks[k].end = max(blocks[k].end, run.End)
				continue
			}
			blocks = append(blocks, block{run, run.End})
		}
		rest := piece{first: r.First, last: r.Last, queued: r.Queued}
		for _, b := range blocks {
			part := rest
			part.run, part.last = b.run, 0
			if part.begin != 0 {
				part.first = min(n.pollFrom(part.begin), b.run.Start)
			}
			for _, p := range n.Polls {
				if p <= b.run.Start {
					part.last = p
				}
			}
			pieces = append(pieces, part)
			rest.begin = b.end
		}
		if rest.begin != 0 {
			rest.first = n.pollFrom(rest.begin)
		}
		pieces = append(pieces, rest)
	}
	isBefore := func(r *Run, t int64) bool {
		if r.Seen > t { // no snapshot up to t shows it
			return r.Start < t && r.End <= t
		}
		return r.Start < t
	}
	ranBetween := func(last, first int64) bool {
		for i := range runs {
			r := &runs[i]
			if isBefore(r, first) && r.End > last && float64(r.Start) > float64(last)-n.Cadence(last) {
				return true
			}
		}
		return false
	}
	for i := 0; i+1 < len(pieces); {
		a, b := pieces[i], pieces[i+1]
		if a.run == nil && float64(b.first-a.last) <= 3*n.Cadence(a.last) && !ranBetween(a.last, b.first) {
			pieces[i] = piece{a.first, max(a.last, b.last), a.queued, a.begin, b.run}
			pieces = slices.Delete(pieces, i+1, i+2)
			continue
		}
		i++
	}
	for _, p := range pieces {
		i, w := len(all), Wait{First: p.first, Last: p.last}
		run := p.run
		if run == nil {
			run = n.ender(&w, runs)
		}
		var ended int64
		before := false // a run that does not end the wait itself
		for k := range runs {
			r := &runs[k]
			if r.Start < p.first {
				if !r.Elsewhere {
					w.Attempts++
				}
				before = before || r != run && isBefore(r, p.first)
			}
			if r.End <= p.first {
				ended = max(ended, r.End)
			}
		}
		previous := int64(math.MaxInt64) // at the first poll there is none
		for _, t := range n.Polls {
			if t < p.first {
				previous = t
			}
		}
		switch {
		case i > 0 && all[i-1].Outcome == "unknown" && !ranBetween(all[i-1].Last, p.first):
			w.Begin, w.Counted = all[i-1].Begin, p.first
		case p.begin != 0:
			w.Begin, w.Counted = p.begin, p.begin
		case i == 0 && !before:
			w.Begin, w.Counted, w.AtQDate = p.queued, p.queued, true
		case ended > previous:
			w.Begin, w.Counted = ended, ended
		default:
			w.Begin, w.Counted = p.first, p.first
		}
		if p.run != nil && p.run.Start < w.Begin {
			continue // the part before the run would be shorter than nothing
		}
		n.endWait(&w, run)
		all = append(all, w)
	}
	return all
}

// ender is the run that ends a wait that no run cut out of its row.
func (n *Queues) ender(w *Wait, runs []Run) *Run {
	c := n.Cadence(w.Last)
	at := slices.Index(n.Polls, w.Last)
	until := float64(w.Last) + 3*c
	if at+1 < len(n.Polls) && n.Known(at) {
		until = max(until, float64(n.Polls[at+1]))
	}
	for i := range runs { // in the order of their starts
		r := &runs[i]
		if !r.sawBy(w.First) && r.End > w.First && float64(r.Start) > float64(w.Last)-c && float64(r.Start) <= until {
			return r
		}
	}
	return nil
}

func (n *Queues) endWait(w *Wait, run *Run) {
	at := slices.Index(n.Polls, w.Last)
	switch {
	case run != nil:
		w.Outcome, w.End, w.Elsewhere = "started", max(run.Start, w.Begin), run.Elsewhere
		if run.Whole {
			w.Ran, w.RanUntil = run.End-run.Start, run.End
		}
	case at == len(n.Polls)-1:
		w.Outcome, w.End = "waiting", w.Last
	case !n.Known(at):
		w.Outcome, w.End = "unknown", w.Last
	default:
		w.Outcome, w.End = "left", w.Last
	}
}
