package runs

import (
	"cmp"
	"slices"
	"strings"

	"github.com/chtc/gpureports/pkg/jobs"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// Explained is a run with its times and its outcome. Pieces that are one run are joined; a run inside which an ad shows
// a new start is several (methodology sections 8 and 9).
type Explained struct {
	*Run                     // First, Last: the snapshots that show it; Last < First if none does and only an ad shows it
	Place     timeline.Place // where its first snapshot shows it, or where an unseen run starts
	Start     pool.Micros
	End       pool.Micros // the event time; unspecified while Running
	Outcome   Outcome
	Evidence  Evidence
	Cause     Cause
	Link      Link
	StartByAd bool // Start comes from an ad, not from the first snapshot that shows the run
	EndByAd   bool // End comes from an ad
	Clamped   bool // by its ad it ends before its start: End is set to Start
	Yields    bool // an ad of the job says that a run of it yielded
	final     bool // nothing more can be known: a later run of the job proves nothing
	// SavedUntil is when the job last saved its work in this run, by its ad; otherwise Start.
	SavedUntil  pool.Micros
	UnknownCode int32   // a vacate code without a meaning in htcondor.md; 0 = none
	Failure     Failure // why the run failed, by the ad that tells its outcome
	// PeakMiB is the highest use of memory of one of its GPUs, by the ad that describes the run, otherwise by the newest
	// ad of its job that has one; negative: it is not known.
	PeakMiB float32

	Number int32    // of the (first) run in Machine.Runs that it is made of
	Ad     *jobs.Ad // describes the run itself; nil without. Callers must not modify it.
}

// adID identifies the runs that a job's ads describe: several epoch ads with one start are one run.
type adID struct {
	kind           jobs.Kind
	start, written jobs.Date // written: of a history ad
}

func idOf(ad *jobs.Ad) adID {
	switch {
	case ad == nil:
		return adID{}
	case ad.Kind == jobs.Epoch:
		return adID{kind: jobs.Epoch, start: ad.JobCurrentStartDate}
	}
	return adID{ad.Kind, ad.JobCurrentStartDate, ad.RecordTime}
}

// record is an ad with the times of the run that it describes, corrected by the error of its access point's clock.
type record struct {
	*jobs.Ad
	start, end pool.Micros // 0 = not stored
	written    pool.Micros // when the ad was written, if that is later than the end of its run; otherwise end
	ahead      pool.Micros // the clock's error
	yields     bool        // it says that a run of its job yielded

	// The ad's own, because a list of records is read faster than their ads.
	AccessPoint string
	Machine     string
	GPUs        []string
	Kind        jobs.Kind
	counts      bool // an id of its GPUs only counts those of its startd
}

// at corrects a date of the ad; 0 = not stored.
func (r *record) at(d jobs.Date) pool.Micros {
	if d == 0 {
		return 0
	}
	return d.Micros() - r.ahead
}

// day is the UTC day that an ad belongs to, by its own dates.
func (r *record) day() int32 {
	if r.end != 0 {
		return pool.DayOf(r.end + r.ahead)
	}
	return pool.DayOf(r.start + r.ahead)
}

// recordOf reads an ad by its access point's clock.
func recordOf(ad *jobs.Ad) record {
	end := cmp.Or(ad.RunEnd(), ad.EnteredCurrentStatus.Micros())
	written := end
	if ad.LostEarlier() {
		written = ad.EpochWriteDate.Micros()
	}
	return record{Ad: ad, AccessPoint: ad.AccessPoint, Machine: ad.Machine, GPUs: ad.GPUs, Kind: ad.Kind,
		start: ad.JobCurrentStartDate.Micros(), end: end, written: written,
		yields: ad.VacateReasonCode == checkpointed || strings.Contains(ad.NumVacatesByReason, successfulCheckpoint),
		counts: slices.ContainsFunc(ad.GPUs, func(id string) bool { _, counts := pool.CountingID(id); return counts })}
}

// correct takes the clocks' errors out of the times of records.
func (c clocks) correct(records []record) {
	for i := range records {
		r := &records[i]
		if !slices.Contains(c.off, r.AccessPoint) {
			continue
		}
		r.ahead = c.of[clockDay{r.AccessPoint, r.day()}].Error
		if r.start != 0 {
			r.start -= r.ahead
		}
		if r.end != 0 {
			r.end -= r.ahead
			r.written -= r.ahead
		}
	}
}

// linker explains runs, machine by machine.
type linker struct {
	observed *Observed
	number   int // the machine's
	machine  *Machine
	name     string    // the machine's
	ids      []string  // the ids of its GPUs
	ads      *foundAds // nil: none

	pieces   []int32
	starts   []pool.Micros
	parts    []part      // parts of one job's runs
	found    []Explained // runs of jobs, of all claims
	claims   []claimed   // claims of explained jobs, at the number of their first piece
	ofClaims []int32     // the pieces of all claims
	short    []record    // ads of short runs on the machine

	constraints []constraint // on clocks
}

// part is a run, or the part of one between two starts that ads show.
type part struct {
	run         *Run
	number      int32         // which run it is
	first, last int32         // snapshots
	from        pool.Micros   // the start that an ad shows; 0 = none
	until       pool.Micros   // the next one; 0 = none
	others      []pool.Micros // starts in ads that describe another part of the job's runs
}

// on reports whether an ad's run was on this machine, with one of the GPUs. An ad without GPUs says nothing against it.
func (l *linker) on(r record, gpus []int32) bool {
	if r.Machine != l.name {
		return false
	}
	named := l.gpusNamed(r)
	return len(named) == 0 || l.shares(named, gpus)
}

// gpusNamed returns the ids of the machine's GPUs that an ad names. One that only counts is the id of the GPU with this
// number in the machine's rows of the UTC day of the ad's start, or of the day before; if these are of several startds,
// the host in the ad names the one (methodology section 2).
func (l *linker) gpusNamed(r record) []string {
	if !r.counts {
		return r.GPUs
	}
	var named []string
	for _, id := range r.GPUs {
		number, counts := pool.CountingID(id)
		if !counts {
			named = append(named, id)
			continue
		}
		var found []string
		startds := map[string]bool{}
		for _, of := range l.idsOn(pool.DayOf(r.JobCurrentStartDate.Micros())) {
			base, startd, _ := strings.Cut(of, "@")
			if n, _ := pool.CountingID(base); n == number {
				found, startds[startd] = append(found, of), true
			}
		}
		if len(startds) > 1 {
			found = slices.DeleteFunc(found, func(of string) bool {
				_, startd, _ := strings.Cut(of, "@")
				return startd != r.Startd
			})
		}
		named = append(named, found...)
	}
	return named
}

// idsOn returns the ids of the machine's GPUs with a row on a UTC day or on the day before.
func (l *linker) idsOn(day int32) (ids []string) {
	o := l.observed
	for k, d := range o.View.Days {
		m := l.machine.days[k].index
		if d.Date != day && d.Date != day-1 || m < 0 {
			continue
		}
		for i := range d.GPUs() {
			if d.MachineOf(i) != int(m) {
				continue
			}
			_, id := o.View.Names.GPU(d.GPU(i))
			if text := o.View.Names.Text(id); !slices.Contains(ids, text) {
				ids = append(ids, text)
			}
		}
	}
	return ids
}

// sharesGPU reports whether the ad of a run on this machine names one of the GPUs.
func (l *linker) sharesGPU(r record, gpus []int32) bool { return l.shares(l.gpusNamed(r), gpus) }

// shares reports whether one of the GPUs has one of the ids.
func (l *linker) shares(ids []string, gpus []int32) bool {
	return slices.ContainsFunc(gpus, func(g int32) bool { return slices.Contains(ids, l.ids[g]) })
}

func (l *linker) time(snapshot int32) pool.Micros { return l.observed.View.Times[snapshot] }

// soonAfter is how late something can be, by an access point's clock, that a snapshot already shows: its rows can be
// stamped one by one, so that it counts from the last one.
func (l *linker) soonAfter(snapshot int32) pool.Micros {
	return l.observed.View.Ends[snapshot] + Tolerance
}

// partsOf joins and splits the pieces of one job on one side, in the order of their first snapshots.
func (l *linker) partsOf(pieces []int32, ads []record, into []part) []part {
	for i := 0; i < len(pieces); {
		run, next := l.join(pieces, i, ads)
		into = l.split(run, pieces[i:next], ads, into)
		i = next
	}
	return into
}

// claimed are the pieces of one claim, and the explained runs that they are: first up to before end of linker.found.
type claimed struct {
	pieces     []int32
	first, end int
}

// ofJob explains all runs of a job on the machine, claim by claim, first those on one side. An ad describes one of
// them, the one that is first seen nearest its start: of the others it, and other ads of that start, tells no more than
// that the job has another run (methodology section 8, unseen runs).
func (l *linker) ofJob(number int32, ads []record) {
	first := len(l.found)
	l.parts = l.parts[:0]
	for _, side := range []pool.Side{pool.Primary, pool.Backfill} {
		from := len(l.ofClaims)
		l.ofClaims = l.observed.runsOf(number, l.number, side, l.ofClaims)
		for pieces := l.ofClaims[from:]; len(pieces) > 0; {
			n := 1
			for n < len(pieces) && l.machine.Runs[pieces[n-1]].Ending == Interrupted {
				n++
			}
			claim := claimed{pieces: pieces[:n], first: first + len(l.parts)}
			l.parts = l.partsOf(pieces[:n], ads, l.parts)
			claim.end = first + len(l.parts)
			l.claims[pieces[0]], pieces = claim, pieces[n:]
		}
	}
	for _, p := range l.parts {
		l.found = append(l.found, l.part(p, ads))
	}
	l.oneRunPerAd(l.found[first:], ads)
}

// oneRunPerAd explains parts of a job's runs again that an ad describes which describes another one better. For
// example, a job is first seen at 10:15 on GPU 0 and at 10:30 on GPU 1, and its only ad names both and begins at 10:14:
// it describes the run on GPU 0.
func (l *linker) oneRunPerAd(found []Explained, ads []record) {
	away := func(e *Explained, r record) pool.Micros { return distance(l.time(e.First), r.start) }
	for i := 0; i < len(found); i++ {
		for j := i + 1; j < len(found); j++ {
			own := found[j].Ad
			if own == nil || found[i].Ad != own {
				continue
			}
			r := ads[slices.IndexFunc(ads, func(r record) bool { return r.Ad == own })]
			worse := j
			if away(&found[j], r) < away(&found[i], r) {
				worse = i
			}
			l.parts[worse].others = append(l.parts[worse].others, r.start)
			found[worse] = l.part(l.parts[worse], ads)
			i, j = 0, 0 // each time fewer ads may describe a part
		}
	}
}

// join makes a run of a job's pieces, starting with first; next is the first piece that is not part of it.
func (l *linker) join(pieces []int32, first int, ads []record) (run *Run, next int) {
	run = &l.machine.Runs[pieces[first]]
	for next = first + 1; next < len(pieces); next++ {
		piece := &l.machine.Runs[pieces[next]]
		if !l.one(run, piece, ads, ads) {
			break
		}
		run = joined(run, piece)
	}
	return run, next
}

// one reports whether a piece and the next one of its claim, on both sides of a gap or of the machine's silence, are
// one run. For example, a job is seen until 10:00, the collector fails until 13:00, and the job is there again: it is
// one run if an ad covers 10:00 to 13:00, or if no ad says that a run of the job began between them.
func (l *linker) one(a, b *Run, covering, starting []record) bool {
	if a.Ending != Interrupted {
		return false
	}
	covers := func(r record) bool {
		return l.on(r, a.GPUs) && l.on(r, b.GPUs) && r.start != 0 && r.start <= l.soonAfter(a.Last) &&
			r.end >= l.time(b.First)-Tolerance
	}
	if slices.ContainsFunc(covering, covers) {
		return true
	}
	next := a.Last + 1
	for !l.observed.Reports(l.machine, next) {
		next++
	}
	continues := func(h hold) bool { return h.first == b.First && slices.Contains(a.GPUs, h.gpu) }
	if next != b.First || !slices.ContainsFunc(b.holds, continues) {
		return false
	}
	return !slices.ContainsFunc(starting, func(r record) bool {
		for _, t := range [...]pool.Micros{r.start, r.at(r.JobLastStartDate), r.at(r.JobStartDate)} {
			if t > max(l.time(a.Last), l.soonAfter(a.First)) && t <= l.soonAfter(b.First) {
				return true
			}
		}
		return false
	})
}

func joined(a, b *Run) *Run {
	run := *b
	run.First, run.User, run.Project, run.Leader = a.First, a.User, a.Project, a.Leader
	run.GPUs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.GPUs, b.GPUs))))
	run.holds = slices.Concat(a.holds, b.holds)
	return &run
}

// shows reports whether a snapshot shows a run of these pieces.
func (l *linker) shows(pieces []int32, snapshot int32) bool {
	return l.observed.Reports(l.machine, snapshot) && slices.ContainsFunc(pieces, func(p int32) bool {
		run := &l.machine.Runs[p]
		return run.First <= snapshot && snapshot <= run.Last
	})
}

// split cuts a run, joined of pieces, at each start that an ad shows. For example, a job is seen from 10:00 to 12:00 on
// one GPU, and an ad says that it began at 11:05. It had ended and was matched again between two snapshots, so it is
// two runs, one until 11:05 and one from then on.
func (l *linker) split(run *Run, pieces []int32, ads []record, into []part) []part {
	l.starts = l.starts[:0]
	for _, r := range ads {
		if r.start > l.soonAfter(run.First) && r.start <= l.time(run.Last) && l.on(r, run.GPUs) && !neverBegan(r.Ad) {
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
		into = append(into, p)
		p = part{run: run, number: pieces[0], first: next, from: s}
	}
	p.last = run.Last
	return append(into, p)
}

// part explains a part of a run by its job's ads, as htcondor.md says ("For one run seen in snapshots").
func (l *linker) part(p part, ads []record) Explained {
	seen := l.seen(p)
	own, link := l.own(p, seen, ads)
	later := lastRun(ads)
	if later.Ad != nil && (later.start <= seen.last || own.Ad != nil && later.start == own.start) {
		later = record{}
	}
	switch {
	case link != NoLink:
	case later.Ad != nil:
		link = EarlierRun
	case len(ads) > 0:
		link = JobOnly
	}
	return l.explainPart(p, seen, link, own, later, ads)
}

// explainPart explains a part of a run by the ad that describes it and by that of a later run of the job, if any.
func (l *linker) explainPart(p part, seen seen, link Link, own, later record, ads []record) Explained {
	e := Explained{Run: l.cut(p, own), Link: link, Number: p.number, Ad: own.Ad,
		Yields: own.yields || later.yields}
	e.Place = l.observed.PlaceAt(&l.machine.GPUs[e.Leader], e.First)
	e.Start = seen.first
	switch {
	case p.from != 0:
		e.Start, e.StartByAd = p.from, true
	case seen.begins(own.start):
		e.Start, e.StartByAd = own.start, true
	case link != JobOnly && link != NoLink:
		e.Start, e.StartByAd = l.startOf(p, &seen, later, own, ads)
	}

	// The run's own ad says how and when it ended; otherwise a later one may.
	var v verdict
	end := pool.Micros(0)
	if own.Ad != nil {
		v, end = verdictOf(own, ads), own.end
	}
	if !seen.ends(end) {
		end = 0
		if later.Ad != nil {
			if t := later.at(later.LastVacateTime); seen.ends(t) && t >= e.Start {
				end = t
			}
		}
	}
	if !v.decided && later.Ad != nil { // a later run began: this one did not complete
		v = byReasons(later.Ad)
		switch {
		case v.decided:
		case later.NumHolds == 0:
			v = byAd(Evicted, UnknownCause)
		default:
			e.final = true
		}
	}
	// What no ad says, the snapshots do.
	e.End, e.EndByAd = seen.end, seen.exact
	if end != 0 {
		e.End, e.EndByAd = end, true
	} else if e.Ending == EndOfData {
		v = verdict{outcome: Running, decided: true}
	}
	e.settle(v)
	if e.Outcome != Running && e.End < e.Start {
		e.End, e.Clamped = e.Start, true
	}
	e.saved(own)
	e.Failure, e.PeakMiB = e.failure(own, ads), peakOf(own, ads)
	return e
}

// saved sets until when the job has saved its work in this run, as the run's own ad says.
func (e *Explained) saved(own record) {
	e.SavedUntil = e.Start
	if own.Ad != nil {
		e.SavedUntil = max(e.Start, min(own.at(own.JobLastCheckpointTime), e.End))
	}
}

// keepHeld leaves a part of a run the GPUs that its own snapshots show; of a part between two snapshots those of the ad
// that describes it.
func (l *linker) keepHeld(run *Run, own record) {
	var gpus []int32
	leader := int32(-1) // the first GPU that its first snapshot shows
	for _, h := range run.holds {
		if h.first > run.Last || h.last < run.First {
			continue
		}
		gpus = append(gpus, h.gpu)
		if h.first <= run.First && (leader < 0 || h.gpu < leader) {
			leader = h.gpu
		}
	}
	slices.Sort(gpus)
	gpus = slices.Compact(gpus)
	// Without one, the ad names them.
	if len(gpus) == 0 && own.Ad != nil {
		named := l.gpusNamed(own)
		gpus = slices.DeleteFunc(slices.Clone(run.GPUs), func(g int32) bool { return !slices.Contains(named, l.ids[g]) })
	}
	if len(gpus) == 0 {
		return
	}
	if leader < 0 {
		leader = gpus[0]
	}
	run.GPUs, run.Leader = gpus, leader
}

// cut is the run of a part that an ad describes, if there is one: it ends with the part.
func (l *linker) cut(p part, own record) *Run {
	if p.first == p.run.First && p.last == p.run.Last {
		return p.run
	}
	run := *p.run
	run.First, run.Last = p.first, p.last
	if len(run.GPUs) > 1 {
		l.keepHeld(&run, own)
	}
	if p.first > p.run.First {
		gpu := &l.machine.GPUs[run.Leader]
		run.Project = gpu.Segments[gpu.At(p.first)].Project
	}
	if p.until != 0 {
		run.Gone = p.last + 1
		run.Ending, run.Takeover, run.TakenBy = Vanished, false, 0
	}
	return &run
}

// seen are the times between which snapshots see a run begin and end.
type seen struct {
	previous    pool.Micros // the previous snapshot; 0 = none
	first, last pool.Micros // the snapshots that show it
	begun       pool.Micros // it began no later than this
	// ended is when it had ended at the latest: soon after the first one without it, or at the next start; 0 = none.
	ended pool.Micros
	end   pool.Micros // the end by the snapshots
	exact bool        // it is the next start
}

func (l *linker) seen(p part) seen {
	s := seen{first: l.time(p.first), last: l.time(p.last), begun: l.soonAfter(p.first)}
	if int(p.first) > l.observed.First {
		s.previous = l.time(p.first - 1)
	}
	switch {
	case p.until != 0:
		s.ended, s.end, s.exact = p.until, p.until, true
	case p.run.Ending == EndOfData:
		s.end = s.last
	case p.run.Ending == Interrupted:
		s.ended, s.end = l.soonAfter(p.run.Gone), s.last
	default:
		s.ended, s.end = l.soonAfter(p.run.Gone), l.time(p.run.Gone)
	}
	return s
}

// begins reports whether a start that an ad has is the run's.
func (s *seen) begins(start pool.Micros) bool {
	return start != 0 && start <= s.begun && (s.previous == 0 || start > s.previous-Tolerance)
}

// ends reports whether an end that an ad has is the run's.
func (s *seen) ends(end pool.Micros) bool {
	return end != 0 && end >= s.last-Tolerance && (s.ended == 0 || end <= s.ended)
}

// startOf returns the run's start by the newest ad of its job, otherwise the first snapshot. own is the ad that
// describes the run, later that of a later run of the job, if there are any.
func (l *linker) startOf(p part, s *seen, later, own record, ads []record) (start pool.Micros, byAd bool) {
	if later.Ad != nil {
		if t := later.at(later.JobLastStartDate); s.begins(t) {
			return t, true
		}
	}
	newest := lastRun(ads)
	if newest.Ad == nil || p.run.Job.IsNone() {
		return s.first, false
	}
	if t := newest.at(newest.JobStartDate); s.begins(t) && !l.otherBegan(p, t, own, ads) {
		return t, true
	}
	return s.first, false
}

// otherBegan reports whether another run of a part's job began at the start of the job's first run: one that ads show,
// own aside, or one that is seen no later.
func (l *linker) otherBegan(p part, t pool.Micros, own record, ads []record) bool {
	if slices.ContainsFunc(ads, func(r record) bool {
		return r.Ad != own.Ad && distance(r.start, t) <= Tolerance
	}) {
		return true
	}
	o := l.observed
	for _, s := range o.jobs().seen[o.JobOf(l.number, int(p.number))] {
		r := &o.Machines[s.machine].Runs[s.run]
		same := int(s.machine) == l.number && r.Side == p.run.Side && p.run.First <= r.First && r.First <= p.run.Last
		if same || r.First > p.first {
			continue
		}
		if other := l.seen(part{run: r, first: r.First, last: r.Last}); other.begins(t) {
			return true
		}
	}
	return false
}

// lastRun returns the ad of the job's last run that is known: the history ad before an epoch ad, the newest of several.
func lastRun(ads []record) (last record) {
	for _, r := range ads { // in the order of their writing
		if r.start != 0 && (last.Ad == nil || r.start > last.start || r.start == last.start &&
			(r.Kind == jobs.History || last.Kind == jobs.Epoch)) {
			last = r
		}
	}
	return last
}

// own returns the ad that describes the part itself.
func (l *linker) own(p part, s seen, ads []record) (record, Link) {
	var epoch, history record
	better := func(r, than record, overlap func(record) int) bool {
		return than.Ad == nil || cmp.Or(overlap(r)-overlap(than), cmp.Compare(r.start, than.start),
			cmp.Compare(r.RecordTime, than.RecordTime)) > 0
	}
	overlap := func(r record) int {
		if r.start <= s.last && r.written >= s.first {
			return 1
		}
		return 0
	}
	for _, r := range ads {
		if r.start == 0 || r.start < p.from || p.until != 0 && r.start >= p.until ||
			r.start > max(l.soonAfter(p.last), p.from+Tolerance) || slices.Contains(p.others, r.start) {
			continue
		}
		if r.Kind == jobs.Epoch {
			if r.start <= s.begun && r.written >= s.last-Tolerance && better(r, epoch, overlap) && l.on(r, p.run.GPUs) {
				epoch = r
			}
		} else if better(r, history, func(record) int { return 0 }) && l.on(r, p.run.GPUs) {
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

// verdictOf reads the outcome of the run that an ad describes, of which the history ad may say more than an epoch ad.
func verdictOf(own record, ads []record) verdict {
	if own.Kind == jobs.History {
		return byHistory(own.Ad)
	}
	v := byEpoch(own.Ad)
	if history := sameRun(own, ads); !v.decided && history != nil {
		return byHistory(history)
	}
	return v
}

// sameRun returns the history ad of the run that an epoch ad describes; nil if there is none.
func sameRun(own record, ads []record) *jobs.Ad {
	for _, r := range ads {
		if r.Kind == jobs.History && r.GlobalJobID == own.GlobalJobID && r.Machine == own.Machine &&
			distance(r.start, own.start) <= Tolerance {
			return r.Ad
		}
	}
	return nil
}

// settle takes the outcome from an ad, or otherwise from the snapshots around the run's end. The evidence Reappeared
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
		own := l.nearest(run, ads)
		for i+1 < len(pieces) {
			next := &l.machine.Runs[pieces[i+1]]
			if !l.one(run, next, known(own), known(l.nearest(next, ads))) {
				break
			}
			i++
			run = joined(run, next)
		}
		p := part{run: run, number: number, first: run.First, last: run.Last}
		link := NoLink
		if own.Ad != nil {
			link = MachineAndTime
		}
		e := l.explainPart(p, l.seen(p), link, own, record{}, ads)
		e.PeakMiB = peakOf(own, nil) // the other ads are of other jobs
		into = append(into, e)
	}
	return into
}

func known(r record) []record {
	if r.Ad == nil {
		return nil
	}
	return []record{r}
}

// nearest finds the ad of a run without a GlobalJobId: on its GPU and side, begun in the interval in which the run
// began, as near to its first snapshot as possible.
func (l *linker) nearest(run *Run, ads []record) record {
	var best record
	if int(run.First) == l.observed.First {
		return best
	}
	first := l.time(run.First)
	after := l.time(run.First-1) - Tolerance
	for _, r := range ads {
		if r.start <= after || r.start > l.soonAfter(run.First) || l.sideOf(r) != run.Side ||
			!l.sharesGPU(r, run.GPUs) {
			continue
		}
		nearer := distance(first, r.start) - distance(first, best.start)
		if best.Ad == nil || nearer < 0 || nearer == 0 && r.Kind == jobs.Epoch && best.Kind != jobs.Epoch {
			best = r
		}
	}
	return best
}
