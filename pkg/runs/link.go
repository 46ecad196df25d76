package runs

import (
	"cmp"
	"slices"
	"time"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
)

// Explained is a run with its times and its outcome. Pieces that one ad covers are one; a run inside which an ad shows a
// new start is several (methodology sections 8 and 9).
type Explained struct {
	*Run        // First, Last: the snapshots that show it; Last < First when none does and only an ad tells of it
	Start       pool.Micros
	End         pool.Micros // the event time; what it is while Running is left open
	Outcome     Outcome
	Evidence    Evidence
	Cause       Cause
	Link        Link
	StartByAd   bool  // an ad tells Start; else it is the first snapshot that shows the run
	EndByAd     bool  // an ad tells End
	Clamped     bool  // End lies before Start, by a clock's error: the duration counts as 0
	UnknownCode int32 // a vacate code without a meaning in htcondor.md; 0 = none

	number int32 // of the (first) run in Machine.Runs
	final  bool  // nothing more can be told: a later run of the job proves nothing
}

// Number is the number of the (first) run in Machine.Runs that it is made of.
func (e *Explained) Number() int { return int(e.number) }

// record is an ad with the times of the run that it describes.
type record struct {
	*jobs.Ad
	start, end pool.Micros // 0 = not stored
}

func micros(t time.Time) pool.Micros {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func recordOf(ad *jobs.Ad) record {
	r := record{Ad: ad, start: micros(ad.JobCurrentStartDate)}
	wall := pool.Micros(0)
	if r.start != 0 && ad.LastRemoteWallClockTime > 0 {
		wall = r.start + pool.Micros(ad.LastRemoteWallClockTime*float64(pool.Second)+0.5)
	}
	idle := ad.JobStatus == statusRemoved && ad.LastJobStatus == statusIdle && !ad.HasVacateReasonCode
	switch {
	case ad.Kind == jobs.Epoch:
		r.end = micros(ad.EpochWriteDate)
	case !ad.CompletionDate.IsZero():
		r.end = micros(ad.CompletionDate)
	case idle && !ad.LastVacateTime.IsZero():
		r.end = micros(ad.LastVacateTime)
	case wall != 0:
		r.end = wall
	default:
		r.end = micros(ad.EnteredCurrentStatus)
	}
	return r
}

// linker explains runs, machine by machine.
type linker struct {
	observed *Observed
	number   int // of the machine
	machine  *Machine
	name     string
	ids      []string    // of the machine's GPUs
	ads      [][]jobs.Ad // by job number
	nearby   []record    // ads of the machine, for runs without a GlobalJobId

	// of one job
	known  []record
	pieces []int32
	starts []pool.Micros
	joined []Explained

	chosen []bool // runs of the machine
}

// part is a run, or the part of one between two starts that ads show.
type part struct {
	run         *Run
	number      int32       // of the run
	first, last int32       // snapshots
	from        pool.Micros // the start that an ad shows; 0 = none
	until       pool.Micros // the next one; 0 = none
}

// on tells whether an ad's run was on this machine, with one of the GPUs. An ad without GPUs says nothing against it.
func (l *linker) on(r record, gpus []int32) bool {
	return r.Machine == l.name && (len(r.GPUs) == 0 || l.sharesGPU(r, gpus))
}

func (l *linker) sharesGPU(r record, gpus []int32) bool {
	return slices.ContainsFunc(gpus, func(g int32) bool { return slices.Contains(r.GPUs, l.ids[g]) })
}

func (l *linker) time(snapshot int32) pool.Micros { return l.observed.View.Times[snapshot] }

// explain explains the pieces of one job on one side, in the order of their first snapshots.
func (l *linker) explain(pieces []int32, ads []record, into []Explained) []Explained {
	for i := 0; i < len(pieces); i++ {
		first := i
		run := &l.machine.Runs[pieces[first]]
		for i+1 < len(pieces) && l.covered(run, &l.machine.Runs[pieces[i+1]], ads) {
			i++
			run = joined(run, &l.machine.Runs[pieces[i]])
		}
		into = l.split(run, pieces[first:i+1], ads, into)
	}
	return into
}

// covered tells whether one ad covers a piece and the next one, on both sides of a gap or of the machine's silence.
func (l *linker) covered(a, b *Run, ads []record) bool {
	return a.Ending == Interrupted && slices.ContainsFunc(ads, func(r record) bool {
		return l.on(r, a.GPUs) && l.on(r, b.GPUs) && r.start != 0 && r.start <= l.time(a.Last)+Tolerance && r.end >= l.time(b.First)-Tolerance
	})
}

func joined(a, b *Run) *Run {
	run := *b
	run.First, run.User, run.Leader = a.First, a.User, a.Leader
	run.GPUs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.GPUs, b.GPUs))))
	return &run
}

// shows tells whether a snapshot shows a run of these pieces.
func (l *linker) shows(pieces []int32, snapshot int32) bool {
	return l.observed.reports(l.machine, snapshot) && slices.ContainsFunc(pieces, func(p int32) bool {
		return l.machine.Runs[p].First <= snapshot && snapshot <= l.machine.Runs[p].Last
	})
}

// split cuts a run, joined of pieces, where an ad shows a new start, and explains its parts.
func (l *linker) split(run *Run, pieces []int32, ads []record, into []Explained) []Explained {
	l.starts = l.starts[:0]
	for _, r := range ads {
		if r.start > l.time(run.First)+Tolerance && r.start <= l.time(run.Last) && l.on(r, run.GPUs) {
			l.starts = append(l.starts, r.start)
		}
	}
	slices.Sort(l.starts)
	p := part{run: run, number: pieces[0], first: run.First}
	for _, s := range slices.Compact(l.starts) {
		next := p.first
		for l.time(next) < s {
			next++
		}
		p.last, p.until = next-1, s
		for p.last > p.first && !l.shows(pieces, p.last) {
			p.last--
		}
		for !l.shows(pieces, next) {
			next++
		}
		into = append(into, l.part(p, ads))
		p = part{run: run, number: pieces[0], first: next, from: s}
	}
	p.last = run.Last
	return append(into, l.part(p, ads))
}

// part explains a part of a run by its job's ads, as htcondor.md says ("For one run seen in snapshots").
func (l *linker) part(p part, ads []record) Explained {
	e := Explained{Run: p.run, number: p.number}
	if p.first != p.run.First || p.last != p.run.Last {
		run := *p.run
		run.First, run.Last = p.first, p.last
		if p.until != 0 {
			run.Gone = p.last + 1
			run.Ending, run.Takeover, run.TakenBy = Vanished, false, 0
		}
		e.Run = &run
	}
	seen := l.seen(p)
	own, link := l.own(p, seen, ads)
	later := lastRun(ads)
	if later.Ad != nil && (later.start <= seen.last || own.Ad != nil && later.start == own.start) {
		later = record{}
	}
	switch {
	case link != NoLink:
		e.Link = link
	case later.Ad != nil:
		e.Link = EarlierRun
	case len(ads) > 0:
		e.Link = JobOnly
	}

	// start
	e.Start = seen.first
	switch {
	case p.from != 0:
		e.Start, e.StartByAd = p.from, true
	case own.Ad != nil:
		if seen.begins(own.start) {
			e.Start, e.StartByAd = own.start, true
		}
	default:
		e.Start, e.StartByAd = seen.startOf(later)
	}

	// end and outcome
	v := verdict{}
	end := pool.Micros(0)
	if own.Ad != nil {
		end = own.end
		if own.Kind == jobs.Epoch {
			v = byEpoch(own.Ad)
			if !v.decided {
				v = l.sameRun(p, own, ads)
			}
		} else {
			v = byHistory(own.Ad)
		}
	}
	vacated := pool.Micros(0)
	if later.Ad != nil && seen.ends(micros(later.LastVacateTime)) {
		vacated = micros(later.LastVacateTime)
	}
	if !seen.ends(end) {
		end = vacated
	}
	if !v.decided && later.Ad != nil { // a later run began: this one did not complete
		if later.NumHolds == 0 || vacated != 0 {
			v = byAd(Evicted, UnknownCause)
		} else {
			e.final = true
		}
	}
	e.End, e.EndByAd = seen.end, seen.exact
	if end != 0 {
		e.End, e.EndByAd = end, true
	}
	if e.Ending == EndOfData {
		if end == 0 {
			v = verdict{outcome: Running, decided: true}
		}
	}
	e.settle(v)
	e.Clamped = e.Outcome != Running && e.End < e.Start
	return e
}

// seen are the times between which snapshots see a run begin and end.
type seen struct {
	previous    pool.Micros // the snapshot before; 0 = none
	first, last pool.Micros // the snapshots that show it
	absent      pool.Micros // the first one after it, or the next start; 0 = none
	end         pool.Micros // the end by the snapshots
	exact       bool        // absent is the next start
}

func (l *linker) seen(p part) seen {
	s := seen{first: l.time(p.first), last: l.time(p.last)}
	if int(p.first) > l.observed.First {
		s.previous = l.time(p.first - 1)
	}
	switch {
	case p.until != 0:
		s.absent, s.end, s.exact = p.until, p.until, true
	case p.run.Ending == EndOfData:
		s.end = s.last
	case p.run.Ending == Interrupted:
		s.absent, s.end = l.time(p.run.Gone), s.last
	default:
		s.absent, s.end = l.time(p.run.Gone), l.time(p.run.Gone)
	}
	return s
}

// begins tells whether a start that an ad tells is the run's.
func (s *seen) begins(start pool.Micros) bool {
	return start != 0 && start <= s.first+Tolerance && (s.previous == 0 || start > s.previous-Tolerance)
}

// ends tells whether an end that an ad tells is the run's.
func (s *seen) ends(end pool.Micros) bool {
	switch {
	case end == 0 || end < s.last-Tolerance:
		return false
	case s.exact:
		return end <= s.absent
	}
	return s.absent == 0 || end <= s.absent+Tolerance
}

// startOf returns the run's start as the ad of a later run tells it, else the first snapshot.
func (s *seen) startOf(later record) (start pool.Micros, byAd bool) {
	if later.Ad != nil {
		for _, t := range []pool.Micros{micros(later.JobLastStartDate), micros(later.JobStartDate)} {
			if s.begins(t) {
				return t, true
			}
		}
	}
	return s.first, false
}

// lastRun returns the ad of the job's last run that is known: the history ad before an epoch ad, the newest of several.
func lastRun(ads []record) (last record) {
	for _, r := range ads { // in the order of their writing
		if r.start != 0 && (last.Ad == nil || r.start > last.start || r.start == last.start && (r.Kind == jobs.History || last.Kind == jobs.Epoch)) {
			last = r
		}
	}
	return last
}

// own returns the ad that describes the part itself.
func (l *linker) own(p part, s seen, ads []record) (record, Link) {
	var epoch, history record
	better := func(r, than record, overlap func(record) int) bool {
		return than.Ad == nil || cmp.Or(overlap(r)-overlap(than), cmp.Compare(r.start, than.start), r.RecordTime.Compare(than.RecordTime)) > 0
	}
	overlap := func(r record) int {
		if r.start <= s.last && r.end >= s.first {
			return 1
		}
		return 0
	}
	for _, r := range ads {
		if r.start == 0 || r.start < p.from || p.until != 0 && r.start >= p.until || !l.on(r, p.run.GPUs) {
			continue
		}
		if r.Kind == jobs.Epoch {
			if r.start <= s.first+Tolerance && r.end >= s.last-Tolerance && better(r, epoch, overlap) {
				epoch = r
			}
		} else if r.start <= max(s.last, p.from)+Tolerance && micros(r.RecordTime) >= s.first-Tolerance && better(r, history, func(record) int { return 0 }) {
			history = r
		}
	}
	switch {
	case epoch.Ad != nil:
		return epoch, EpochAd
	case history.Ad != nil:
		return history, LastRun
	}
	return record{}, NoLink
}

// sameRun reads the outcome of an epoch's run from the history ad, if that one describes the same run.
func (l *linker) sameRun(p part, epoch record, ads []record) verdict {
	for _, r := range ads {
		if r.Kind == jobs.History && r.start == epoch.start && r.Machine == epoch.Machine {
			return byHistory(r.Ad)
		}
	}
	return verdict{}
}

// settle takes the outcome that an ad tells, else what the snapshots around the run's end tell. The evidence Reappeared
// needs the other machines' runs and comes later.
func (e *Explained) settle(v verdict) {
	switch {
	case v.decided:
		e.Outcome, e.Evidence, e.Cause, e.UnknownCode, e.final = v.outcome, v.evidence, v.cause, v.unknown, true
		if e.Cause == UnknownCause && e.Takeover && v.unknown == 0 {
			e.Cause = OwnerPreemption
		}
	case e.Takeover:
		e.Outcome, e.Evidence, e.Cause = Evicted, Takeover, OwnerPreemption
	case e.Ending == Interrupted:
		e.Outcome = Lost
	}
}

// withoutID explains the pieces of a run without a GlobalJobId by the machine's ads.
func (l *linker) withoutID(pieces []int32, ads []record, into []Explained) []Explained {
	for i := 0; i < len(pieces); i++ {
		number := pieces[i]
		run := &l.machine.Runs[number]
		var known []record
		if own := l.nearest(run, ads); own.Ad != nil {
			known = []record{own}
		}
		for i+1 < len(pieces) && l.covered(run, &l.machine.Runs[pieces[i+1]], known) {
			i++
			run = joined(run, &l.machine.Runs[pieces[i]])
		}
		e := l.part(part{run: run, number: number, first: run.First, last: run.Last}, known)
		if e.Link.Linked() {
			e.Link = MachineAndTime
		}
		into = append(into, e)
	}
	return into
}

// nearest finds the ad of a run without a GlobalJobId: on its GPU and side, begun in the interval in which the run began,
// as near to its first snapshot as possible.
func (l *linker) nearest(run *Run, ads []record) record {
	var best record
	if int(run.First) == l.observed.First {
		return best
	}
	first := l.time(run.First)
	after := l.time(run.First-1) - Tolerance
	distance := func(r record) pool.Micros { return max(first-r.start, r.start-first) }
	for _, r := range ads {
		if r.start <= after || r.start > first+Tolerance || r.OnBackfill() != (run.Side == pool.Backfill) || !l.sharesGPU(r, run.GPUs) {
			continue
		}
		if best.Ad == nil || distance(r) < distance(best) || distance(r) == distance(best) && r.Kind == jobs.Epoch && best.Kind != jobs.Epoch {
			best = r
		}
	}
	return best
}
