package runs

import (
	"slices"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/timeline"
)

// walker reads one machine.
type walker struct {
	observed          *Observed
	machine           *Machine
	gaps              []int32
	firstDay, lastDay int

	segments [][]segment // of each GPU
	holds    []hold
	stale    []hold // rows of jobs whose GPU a primary slot holds
}

// segment is a Segment in the making.
type segment struct {
	first, last int32
	status      *status
	outside     bool // the GPU is not in the pool on that day
}

func (w *walker) run() {
	w.segments = make([][]segment, len(w.machine.GPUs))
	for g := range w.machine.GPUs {
		w.segments[g] = w.bridge(w.walk(w.machine.GPUs[g].GPU))
		w.hold(g)
	}
	w.build()
	for g := range w.machine.GPUs {
		w.machine.GPUs[g].Segments = w.finish(g)
	}
}

// gapAfter tells whether there is a gap right after a snapshot.
func (w *walker) gapAfter(snapshot int32) bool { return w.gaps[snapshot] == snapshot }

// walk joins a GPU's spans of all days: consecutive snapshots without a gap and with the same status.
func (w *walker) walk(g timeline.GPU) []segment {
	o := w.observed
	var all []segment
	add := func(first, last int32, status *status, outside bool) {
		first, last = max(first, int32(o.First)), min(last, int32(o.End-1))
		for first <= last {
			until := min(last, w.gaps[first])
			if n := len(all) - 1; n >= 0 && all[n].outside == outside && all[n].status.same(status) && !w.gapAfter(all[n].last) {
				all[n].last = until
			} else {
				all = append(all, segment{first, until, status, outside})
			}
			first = until + 1
		}
	}
	for k := w.firstDay; k <= w.lastDay; k++ {
		d, base := o.View.Days[k], int32(o.View.Base[k])
		outside := !o.inPool(g, k)
		i := o.dayIndex(k, g)
		if i < 0 {
			w.unlisted(k, func(s int32, silent bool) {
				number := timeline.Absent
				if silent {
					number = timeline.Silent
				}
				add(base+s, base+s, &o.days[k].statuses[number], outside)
			})
			continue
		}
		first, statuses := d.Spans(i)
		for n, s := range statuses {
			last := int32(len(d.Times)) - 1
			if n+1 < len(first) {
				last = int32(first[n+1]) - 1
			}
			add(base+int32(first[n]), base+last, &o.days[k].statuses[s], outside)
		}
	}
	return all
}

// unlisted goes through the snapshots of a day on which a GPU has no row.
func (w *walker) unlisted(k int, do func(snapshot int32, silent bool)) {
	d := w.observed.View.Days[k]
	m := slices.IndexFunc(d.Machines(), func(m timeline.Machine) bool { return m.Name == w.machine.Name })
	for s := range d.Times {
		do(int32(s), m < 0 || !d.Reports(m, s))
	}
}

// bridge closes single snapshots in which the machine was silent, with the same state and job on both sides.
func (w *walker) bridge(all []segment) []segment {
	n := 0
	for i := 0; i < len(all); i++ {
		if s := all[i]; n > 0 && i+1 < len(all) && w.single(s) && !w.gapAfter(all[n-1].last) && all[i+1].outside == all[n-1].outside && all[i+1].status.equal(all[n-1].status) {
			all[n-1].last = s.last
			if !all[i+1].status.same(all[n-1].status) {
				continue
			}
			i++
			all[n-1].last = all[i].last
			continue
		}
		all[n] = all[i]
		n++
	}
	return all[:n]
}

// single tells whether a segment is one silent snapshot without a gap behind it.
func (w *walker) single(s segment) bool {
	return s.status.state == Unknown && s.first == s.last && !w.gapAfter(s.last)
}

// at returns the index of a GPU's segment that holds a snapshot.
func (w *walker) at(g int32, snapshot int32) int {
	i, _ := slices.BinarySearchFunc(w.segments[g], snapshot, func(s segment, snapshot int32) int { return int(s.last - snapshot) })
	return i
}

// finish turns a GPU's segments into Segments. Runs have said which of them they hold.
func (w *walker) finish(g int) []Segment {
	all := make([]Segment, len(w.segments[g]))
	for i, s := range w.segments[g] {
		all[i] = Segment{s.first, s.last, s.status.state, -1, -1, s.status.project}
		if s.outside {
			all[i].State = Outside
		}
	}
	for h := range w.holds {
		hold := &w.holds[h]
		if hold.gpu != int32(g) || hold.run < 0 {
			continue
		}
		for i := hold.segFirst; i <= hold.segLast; i++ {
			s := &w.segments[g][i]
			if s.status.job != hold.job || s.status.user != hold.user && hold.job.IsNone() {
				continue // it is an extra claim there
			}
			if hold.first <= s.first && s.first <= hold.last {
				all[i].RunFirst = hold.run
			}
			if hold.first <= s.last && s.last <= hold.last {
				all[i].RunLast = hold.run
			}
		}
	}
	return all
}

func sideOf(s State) pool.Side {
	if s == Taken {
		return pool.Primary
	}
	return pool.Backfill
}
