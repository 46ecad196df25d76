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
	Place     runs.Place // of its first snapshot
	GPU       timeline.Symbol
	Project   timeline.Symbol
	Start     pool.Micros
	End       pool.Micros
	Beginning Beginning
	Reason    Reason
	Job       timeline.Job // that ended it: Claimed and Reclaimed only
	Link      runs.Link    // of its run

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

// read finds the periods of a GPU from the snapshots only.
func (f *finder) read(g int) {
	o := f.Observed
	times, gpu := o.View.Times, &o.Machines[f.machine].GPUs[g]
	segments := gpu.Segments
	for i := 0; i < len(segments); i++ {
		if !f.measure.holds(segments[i].State) {
			continue
		}
		first := i
		for i+1 < len(segments) && f.measure.holds(segments[i+1].State) && !o.GapAfter(segments[i].Last) {
			i++
		}
		p := Period{
			Place: o.PlaceAt(gpu, segments[first].First), GPU: gpu.ID, Project: segments[first].Project,
			Start: times[segments[first].First], End: times[segments[i].Last],
			gpu: int32(g), first: segments[first].First, last: segments[i].Last, startRun: -1, endRun: -1,
		}
		p.begin(o, segments, first)
		f.end(&p, segments, i)
		if f.reaches(&p) || f.ofJobs() { // which also read the tenures before the window
			f.found = append(f.found, p)
		}
	}
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

// end sets the end by the snapshots; of a period that is open at the last observed one by the window.
func (f *finder) end(p *Period, segments []runs.Segment, last int) {
	o, to := f.Observed, f.Plan.Window.To
	switch next := last + 1; {
	case next == len(segments):
		if p.Reason = Gap; o.End < len(o.View.Times) || to-p.End <= o.View.GapLimit(int(p.last)) {
			p.Reason, p.End = Window, max(to, p.End)
		}
	case o.GapAfter(p.last):
		p.Reason = Gap
	default:
		p.Reason = f.measure.ends(segments[next].State)
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

// from cuts a period to the time from a snapshot onward. The true start of a period that began no later is not searched
// for.
func (p *Period) from(o *runs.Observed, gpu *runs.GPU, since int32) {
	if p.first > since || p.last < since {
		return
	}
	p.Project = gpu.Segments[gpu.At(since)].Project
	p.first, p.startRun = since, -1
	p.Start, p.Beginning = o.View.Times[since], LeftTruncated
	if since == 0 || o.GapAfter(since-1) {
		p.Beginning = UnknownStart
	}
}

// sharpen moves start and end to the times of the linked runs that bound the period, each if it lies between the two
// snapshots.
func (p *Period) sharpen(o *runs.Observed, x *runs.Explanation) {
	times := o.View.Times
	if p.startRun >= 0 {
		if e := x.Of(p.startRun, p.first-1); e != nil && e.Link.Linked() && e.End > times[p.first-1] && e.End <= p.Start {
			p.Start = e.End
		}
	}
	if p.endRun >= 0 {
		if e := x.Of(p.endRun, p.last+1); e != nil {
			p.Link = e.Link
			if e.Link.Linked() && e.Start > times[p.last] && e.Start <= p.End {
				p.End = e.Start
			}
		}
	}
}

// cut brings a period to the window; false when it does not overlap it.
func (p *Period) cut(w pool.Window) bool {
	if p.End > w.To {
		p.End, p.Reason, p.Job, p.Link = w.To, Window, timeline.Job{}, runs.NoLink
	}
	return p.Start <= w.To && p.End >= w.From
}
