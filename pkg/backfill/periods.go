package backfill

import (
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/runs"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Reason is the reason why a period ends.
type Reason uint8

const (
	Claimed   Reason = iota // a backfill job took the GPU (vacancies only)
	Reclaimed               // its owner took it
	Blocked                 // its backfill slot is in another state
	Left                    // it has no backfill slot anymore
	Gap                     // out of sight: censored
	Window                  // still open: censored
)

func (r Reason) String() string {
	return [...]string{"claimed", "reclaimed", "blocked", "left", "gap", "window"}[r]
}

// Period is an availability period (vacancy) or a tenure of one GPU (methodology section 7).
type Period struct {
	Place     timeline.Place // where its first snapshot shows it
	GPU       timeline.Symbol
	Project   timeline.Symbol
	Start     pool.Micros
	End       pool.Micros
	Beginning Beginning
	Reason    Reason
	Job       timeline.Job // ended it: Claimed and Reclaimed only
	Link      runs.Link    // how that job's run has its ad

	gpu              int32 // its number in the machine
	first, last      int32 // snapshots
	startRun, endRun int32 // runs that bound it by the snapshots, −1 = none
}

// Beginning is the kind of a period's start.
type Beginning uint8

const (
	Seen          Beginning = iota
	UnknownStart            // before the first snapshot seen the GPU was unknown, or the data begin there
	LeftTruncated           // the true start is earlier than the search before the window goes
)

// Censored reports whether its end was not seen.
func (p *Period) Censored() bool { return p.Reason == Gap || p.Reason == Window }

// Length is End − Start.
func (p *Period) Length() pool.Micros { return p.End - p.Start }

// fate is the role of a period in statistics.
type fate uint8

const (
	complete fate = iota
	censored
	unknownStart  // in no statistics
	leftTruncated // in no statistics
	fates
)

func (p *Period) fate() fate {
	switch {
	case p.Beginning == UnknownStart:
		return unknownStart
	case p.Beginning == LeftTruncated:
		return leftTruncated
	case p.Censored():
		return censored
	}
	return complete
}

// measure is the kind of periods.
type measure uint8

const (
	vacancy  measure = iota // available
	tenure                  // available or used
	measures                // their number
)

func (m measure) holds(s runs.State) bool {
	return s == runs.Available || m == tenure && s == runs.Used
}

// ends returns the reason why a period ends when a state follows.
func (m measure) ends(next runs.State) Reason {
	switch next {
	case runs.Used:
		return Claimed
	case runs.Taken:
		return Reclaimed
	case runs.Blocked:
		return Blocked
	case runs.Unknown:
		return Gap
	}
	return Left
}

// periodsOf appends the periods of a machine's g-th GPU by the snapshots.
func (m measure) periodsOf(o *runs.Observed, gpu *runs.GPU, g int, periods []Period) []Period {
	times, segments := o.View.Times, gpu.Segments
	for i := 0; i < len(segments); i++ {
		if !m.holds(segments[i].State) {
			continue
		}
		first := i
		for i+1 < len(segments) && m.holds(segments[i+1].State) && !o.GapAfter(segments[i].Last) {
			i++
		}
		p := Period{
			Place: o.PlaceAt(gpu, segments[first].First), GPU: gpu.ID, Project: segments[first].Project,
			Start: times[segments[first].First], End: times[segments[i].Last],
			gpu: int32(g), first: segments[first].First, last: segments[i].Last, startRun: -1, endRun: -1,
		}
		p.begin(o, segments, first)
		p.end(o, segments, i, m)
		periods = append(periods, p)
	}
	return periods
}

// begin sets the start by the snapshots.
func (p *Period) begin(o *runs.Observed, segments []runs.Segment, first int) {
	before := int(p.first) - 1
	switch {
	case before < 0 || o.GapAfter(int32(before)):
		p.Beginning = UnknownStart
	case before < o.First:
		p.Beginning = LeftTruncated
	case segments[first-1].State == runs.Unknown:
		p.Beginning = UnknownStart
	default:
		p.startRun = segments[first-1].RunLast
	}
}

// end sets the end by the snapshots; for a period that is open at the last one, see until.
func (p *Period) end(o *runs.Observed, segments []runs.Segment, last int, m measure) {
	switch next := last + 1; {
	case next == len(segments):
		p.Reason = Window
	case o.GapAfter(p.last):
		p.Reason = Gap
	default:
		p.Reason = m.ends(segments[next].State)
		if p.Reason != Gap {
			p.End = o.View.Times[segments[next].First]
		}
		if p.Reason == Claimed || p.Reason == Reclaimed {
			if p.endRun = segments[next].RunFirst; p.endRun >= 0 {
				p.Job = segments[next].Job
			}
		}
	}
}

// until returns a period with its end: one open at the last snapshot ends with the window, or at a gap before that.
func (p *Period) until(o *runs.Observed, to pool.Micros) *Period {
	if p.Reason != Window {
		return p
	}
	open := *p
	if open.Reason = Gap; o.End < len(o.View.Times) || to-p.End <= o.View.GapLimit(int(p.last)) {
		open.Reason, open.End = Window, max(to, p.End)
	}
	return &open
}

// from returns a period from a snapshot onward. The true start of a period that began no later is not searched for.
func (p *Period) from(o *runs.Observed, gpu *runs.GPU, since int32) *Period {
	if p.first > since || p.last < since {
		return p
	}
	cut := *p
	cut.Project = gpu.Segments[gpu.At(since)].Project
	cut.first, cut.startRun = since, -1
	cut.Start, cut.Beginning = o.View.Times[since], LeftTruncated
	if since == 0 || o.GapAfter(since-1) {
		cut.Beginning = UnknownStart
	}
	return &cut
}

// sharpen moves start and end to times of the linked runs that bound the period, if they lie between its snapshots.
func (p *Period) sharpen(o *runs.Observed, x *runs.Explanation) {
	times := o.View.Times
	if p.startRun >= 0 {
		if e := x.Of(p.startRun, p.first-1); e.Link.Linked() && e.End > times[p.first-1] && e.End <= p.Start {
			p.Start = e.End
		}
	}
	if p.endRun >= 0 {
		e := x.Of(p.endRun, p.last+1)
		if p.Link = e.Link; e.Link.Linked() && e.Start > times[p.last] && e.Start <= p.End {
			p.End = e.Start
		}
	}
}

// in returns a period as a window shows it, nil if it does not overlap it.
func (p *Period) in(w pool.Window) *Period {
	if p.Start > w.To || p.End < w.From {
		return nil
	}
	if p.End <= w.To {
		return p
	}
	cut := *p
	cut.End, cut.Reason, cut.Job, cut.Link = w.To, Window, timeline.Job{}, runs.NoLink
	return &cut
}
