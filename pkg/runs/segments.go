package runs

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// segmenter reads machines, one after another.
type segmenter struct {
	*Observed
	days    []day
	machine *Machine

	walked   []segment   // one GPU's
	segments [][]segment // by the number of the GPU in the machine
	holds    []claimInterval
	stale    []stale
	builder  builder
}

// segment is a Segment in the making.
type segment struct {
	first, last   int32
	day           int32
	status        uint32 // as that day numbers it
	outside       bool   // the GPU is not in the pool
	bridged       bool   // the machine was silent: the claim that gives the state was seen before and after
	slotRecreated bool   // the backfill slot was recreated between two jobs: the GPU is available
}

// stale is a backfill row of a job on a GPU that a primary slot holds.
type stale struct {
	job         timeline.Job
	first, last int32
}

func (w *segmenter) run() {
	for len(w.segments) < len(w.machine.GPUs) {
		w.segments = append(w.segments, nil)
	}
	w.holds, w.stale = w.holds[:0], w.stale[:0]
	for g := range w.machine.GPUs {
		w.walk(w.machine.GPUs[g].GPU)
		w.segments[g] = w.bridge(w.walked, w.segments[g][:0])
		w.keep(w.segments[g])
		w.findClaims(g)
	}
	w.build()
	w.finish()
}

func (w *segmenter) status(s *segment) *status { return &w.days[s.day].statuses[s.status] }

// same reports whether two segments are one state with one job and one project, and all other claims are the same.
func (w *segmenter) same(a, b *segment) bool {
	s, t := w.status(a), w.status(b)
	return a.outside == b.outside && a.bridged == b.bridged && s.equal(t) && s.project == t.project &&
		(a.bridged || slices.Equal(s.stale, t.stale) && slices.Equal(s.extra, t.extra))
}

// inPool reports whether a GPU is in the pool on a day: it has a backfill row on it or on the UTC day before.
func (w *segmenter) inPool(g timeline.GPU, k int) bool {
	has := func(k int) bool {
		i := w.days[k].index(g)
		return i >= 0 && w.days[k].pool[i]
	}
	return has(k) || k > 0 && w.View.Days[k-1].Date == w.View.Days[k].Date-1 && has(k-1)
}

// walk joins a GPU's spans of all days: consecutive snapshots without a gap and with the same status.
func (w *segmenter) walk(g timeline.GPU) {
	w.walked = w.walked[:0]
	for k := w.firstDay; k <= w.lastDay; k++ {
		d, base := w.View.Days[k], int32(w.View.Base[k])
		s := segment{day: int32(k), outside: !w.inPool(g, k)}
		i := w.days[k].index(g)
		if i < 0 { // each snapshot lacks it
			m := int(w.machine.days[k].index)
			for i := range d.Times {
				s.first, s.last, s.status = base+int32(i), base+int32(i), timeline.Absent
				if m < 0 || !d.Reports(m, i) {
					s.status = timeline.Silent
				}
				w.add(s)
			}
			continue
		}
		for span := range d.SpansIn(i, 0, len(d.Times)) {
			s.first, s.last, s.status = base+int32(span.First), base+int32(span.End)-1, span.Status
			w.add(s)
		}
	}
}

// add appends a segment, cut at gaps and at the ends of the observed time.
func (w *segmenter) add(s segment) {
	s.first, s.last = max(s.first, int32(w.First)), min(s.last, int32(w.End-1))
	for last := s.last; s.first <= last; s.first = s.last + 1 {
		s.last = min(last, w.gaps[s.first])
		if n := len(w.walked) - 1; n >= 0 && w.same(&w.walked[n], &s) && !w.GapAfter(w.walked[n].last) {
			w.walked[n].last = s.last
		} else {
			w.walked = append(w.walked, s)
		}
	}
}

// Reports reports whether a machine has rows at a snapshot.
func (o *Observed) Reports(machine *Machine, snapshot int32) bool {
	k := o.View.DayAt(int(snapshot))
	m := machine.days[k].index
	return m >= 0 && o.View.Days[k].Reports(int(m), int(snapshot)-o.View.Base[k])
}

// bridge closes single snapshots in which the machine was silent, with the same state and job on both sides.
func (w *segmenter) bridge(all, into []segment) []segment {
	for i := 0; i < len(all); i++ {
		s, n := all[i], len(into)-1
		silence := s.first == s.last && w.status(&s).state == Unknown && !w.GapAfter(s.last)
		if n < 0 || i+1 == len(all) || !silence || w.GapAfter(into[n].last) || all[i+1].outside != into[n].outside ||
			!w.status(&all[i+1]).equal(w.status(&into[n])) {
			into = append(into, s)
		} else if w.same(&all[i+1], &into[n]) {
			i++
			into[n].last = all[i].last
		} else {
			s.day, s.status, s.bridged = into[n].day, into[n].status, true
			into = append(into, s)
		}
	}
	return into
}

// keep makes a GPU available at single snapshots at which it has no backfill row, between two at which it is available
// or used: because its slot is recreated between two jobs (methodology section 7).
func (w *segmenter) keep(all []segment) {
	inUse := func(s *segment) bool {
		state := w.status(s).state
		return !s.outside && (state == Available || state == Used)
	}
	for i := 1; i+1 < len(all); i++ {
		s := &all[i]
		s.slotRecreated = s.first == s.last && !s.outside && !s.bridged && w.status(s).state == Absent &&
			inUse(&all[i-1]) && inUse(&all[i+1]) && !w.GapAfter(all[i-1].last) && !w.GapAfter(s.last)
	}
}

// at returns the index of a GPU's segment that holds a snapshot.
func (w *segmenter) at(g, snapshot int32) int {
	i, _ := slices.BinarySearchFunc(w.segments[g], snapshot,
		func(s segment, snapshot int32) int { return int(s.last - snapshot) })
	return i
}

// silent reports whether the machine had no row at a snapshot, as a GPU's segment says.
func (w *segmenter) silent(s *segment) bool { return s.bridged || w.status(s).state == Unknown }

// finish turns the machine's segments into Segments. Holds say which runs they belong to.
func (w *segmenter) finish() {
	// Make the segments public.
	for g := range w.machine.GPUs {
		all := make([]Segment, 0, len(w.segments[g]))
		for i := range w.segments[g] {
			s := &w.segments[g][i]
			t := w.status(s)
			is := Segment{First: s.first, Last: s.last, RunFirst: -1, RunLast: -1, Job: t.job, User: t.user, Project: t.project,
				State: t.state}
			switch {
			case s.outside:
				is.State = Outside
			case s.slotRecreated:
				is.State = Available
			}
			all = append(all, is)
		}
		w.machine.GPUs[g].Segments = all
	}
	// Name the runs that the segments belong to.
	for h := range w.holds {
		hold := &w.holds[h]
		if hold.run < 0 {
			continue
		}
		all := w.machine.GPUs[hold.gpu].Segments
		for i := hold.segFirst; i <= hold.segLast; i++ {
			if t := w.status(&w.segments[hold.gpu][i]); t.job != hold.job || t.user != hold.user && hold.job.IsNone() {
				continue // it is an extra claim there
			}
			s := &all[i]
			if hold.first <= s.First && s.First <= hold.last {
				s.RunFirst = hold.run
			}
			if hold.first <= s.Last && s.Last <= hold.last {
				s.RunLast = hold.run
			}
		}
	}
}

// claimed reports whether a job gives the state.
func (s State) claimed() bool { return s == Taken || s == Used }

// side is the side of the job that gives the state.
func (s State) side() pool.Side {
	if s == Taken {
		return pool.Primary
	}
	return pool.Backfill
}
