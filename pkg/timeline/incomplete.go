package timeline

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/snapshots"
)

// This file finds incomplete snapshots: a collector that was just restarted does not know its machines yet (methodology
// section 1). A day is first read with all its snapshots. If some turn out to be incomplete, it is read again without
// them, and kept under a name that tells which are left out.

// Incomplete is a snapshot with less than half of the machines.
type Incomplete struct {
	Time     pool.Micros
	Machines int // that have a row in it
	Of       int // machines of the last complete snapshot before it
}

const (
	// fewMachines is how many machines are too few to judge a snapshot by them.
	fewMachines = 5

	// backWithin is how long after the last complete snapshot the machines must be back.
	backWithin = 65 * pool.Minute
)

// isThin reports whether the day has a snapshot that may be incomplete. One that is has less than half of the machines
// of a snapshot before it, of which a later one has 90 % again, and one of these two is on the same day.
func (d *Day) isThin() bool {
	machines := d.reporting()
	if len(machines) == 0 {
		return false
	}
	most := slices.Max(machines)
	return most >= fewMachines && 9*slices.Min(machines) < 5*most
}

// reporting returns how many machines have a row in each snapshot.
func (d *Day) reporting() []int {
	n := make([]int, len(d.Times)+1)
	for _, s := range d.silent {
		n[s.First]--
		n[s.Last+1]++
	}
	for i := range d.Times {
		n[i+1] += n[i]
		n[i] += len(d.Machines)
	}
	return n[:len(d.Times)]
}

// forgetMark takes the mark out of a reading if its snapshot is left out: the next reading cannot resume there.
func (d *Day) forgetMark(reading *snapshots.Reading) {
	n, last := len(d.incomplete), len(d.Times)-1
	if n > 0 && (last < 0 || d.incomplete[n-1].Time > d.Times[last]) {
		reading.Key.Mark = ""
	}
}

// incomplete returns the snapshots of a day that are left out; stats has those whose machines may still come back.
func (t *Timeline) incomplete(ctx context.Context, state snapshots.State, d *Day, stats *loadStats) ([]Incomplete,
	error) {
	// Soon after midnight all snapshots that there are may be incomplete.
	n := len(d.Times)
	if !d.thin && (n == 0 || d.Times[n-1] >= pool.Micros(d.Date)*pool.Day+backWithin || state.Finished(d.Date)) {
		return nil, nil
	}
	near, err := t.whole(ctx, state, d.Date-2, d.Date+1, stats)
	if err != nil {
		return nil, err
	}
	left, waiting := judge(newView(t.Names, near, nil), d.Date, !state.Finished(d.Date))
	stats.addWaiting(waiting)
	return left, nil
}

// counted returns a day without its incomplete snapshots; nil if it can no longer be read.
func (t *Timeline) counted(ctx context.Context, state snapshots.State, d *Day, stats *loadStats) (*Day, error) {
	left, err := t.incomplete(ctx, state, d, stats)
	if len(left) == 0 {
		return d, err
	}
	entries, err := t.segments.all(ctx, 1, stats, func(int) request[*Day] {
		return t.segmentOf(state, d.Date, left, stats)
	})
	if err != nil || entries[0] == nil {
		return nil, err
	}
	counted := entries[0].value
	if len(counted.Times)+len(left) != len(d.Times) {
		return nil, errOtherRows
	}
	return counted, nil
}

// judge finds a day's incomplete snapshots in a view of all snapshots from two days before it to the day after it:
// those that are left out and, if the day is growing, those that count until their machines are back.
func judge(v *View, date int32, growing bool) (left, waiting []Incomplete) {
	begin, end := pool.Micros(date)*pool.Day, pool.Micros(date+1)*pool.Day
	// A snapshot more than an hour before the day decides nothing on it: it may be taken for complete.
	complete := sort.Search(len(v.Times), func(i int) bool { return v.Times[i] >= begin-pool.Day })
	var machines []int // that have a row, by snapshot
	for _, d := range v.Days {
		machines = append(machines, d.reporting()...)
	}
	for i := complete + 1; i < len(v.Times) && v.Times[i] < end; i++ {
		if v.GapAfter(i-1) || machines[complete] < fewMachines || 2*machines[i] >= machines[complete] {
			complete = i
			continue
		}
		found := Incomplete{v.Times[i], machines[i], machines[complete]}
		switch back, known := v.comeBack(complete, i); {
		case back:
			if found.Time >= begin {
				left = append(left, found)
			}
		case !known && growing && v.Times[len(v.Times)-1] < v.Times[complete]+backWithin:
			if found.Time >= begin {
				waiting = append(waiting, found)
			}
		default:
			complete = i
		}
	}
	return left, waiting
}

// comeBack reports whether the machines that a snapshot lacks come back with their jobs: a snapshot soon after the last
// complete one has nearly all its machines, and at the first such one at least half of the jobs run again that the
// lacking machines ran. known is false if there is no such snapshot.
func (v *View) comeBack(complete, few int) (back, known bool) {
	before, now := v.machinesAt(complete), v.machinesAt(few)
	if 10*(len(now)-common(now, before)) > len(now) {
		return false, true // these are other machines
	}
	for i := few + 1; i < len(v.Times) && v.Times[i] <= v.Times[complete]+backWithin; i++ {
		if 10*common(before, v.machinesAt(i)) < 9*len(before) {
			continue
		}
		ran := v.jobsAt(complete)
		for job := range ran {
			if now[job.machine] {
				delete(ran, job)
			}
		}
		return 2*common(ran, v.jobsAt(i)) >= len(ran), true
	}
	return false, false
}

// common returns how many elements of a set are in another one.
func common[T comparable](set, other map[T]bool) (n int) {
	for element := range set {
		if other[element] {
			n++
		}
	}
	return n
}

// machinesAt returns the machines with a row in a snapshot.
func (v *View) machinesAt(snapshot int) map[Symbol]bool {
	day := v.DayAt(snapshot)
	d, i := v.Days[day], snapshot-v.Base[day]
	machines := map[Symbol]bool{}
	for m := range d.Machines {
		if d.Reports(m, i) {
			machines[d.Machines[m].Name] = true
		}
	}
	return machines
}

// machineJob is a job on a machine.
type machineJob struct {
	machine Symbol
	job     Job
}

// jobsAt returns the jobs that run in a snapshot.
func (v *View) jobsAt(snapshot int) map[machineJob]bool {
	day := v.DayAt(snapshot)
	d, i := v.Days[day], snapshot-v.Base[day]
	jobs, found := d.Jobs(), map[machineJob]bool{}
	for gpu := range d.GPUs() {
		machine := d.Machines[d.MachineOf(gpu)].Name
		for span := range d.SpansIn(gpu, i, i+1) {
			for _, job := range d.claimed(span.Status, jobs) {
				found[machineJob{machine, job}] = true
			}
		}
	}
	return found
}

// Incomplete returns the incomplete snapshots in a window, ascending: those that are left out, and those that count
// until their machines are back.
func (v *View) Incomplete(w pool.Window) (left, waiting []Incomplete) {
	in := func(all []Incomplete) []Incomplete {
		return slices.DeleteFunc(slices.Clone(all), func(i Incomplete) bool { return !w.Contains(i.Time) })
	}
	for _, d := range v.loaded {
		left = append(left, in(d.incomplete)...)
	}
	return left, in(v.stats.waiting)
}

// incompleteNotices tells of the incomplete snapshots in a window.
func (v *View) incompleteNotices(w pool.Window) (notices []Notice) {
	left, waiting := v.Incomplete(w)
	if len(left) > 0 {
		what := "snapshot is incomplete and counts"
		if len(left) > 1 {
			what = "snapshots are incomplete and count"
		}
		notices = append(notices, Notice{Stat: "Incomplete snapshots, left out", Count: len(left), Text: fmt.Sprintf(
			"%d %s nowhere, because the machines that are missing came back with their jobs, as after a restart of the "+
				"collector: %s", len(left), what, left[0])})
	}
	if n := len(waiting); n > 0 {
		notices = append(notices, Notice{Warning: true, Text: fmt.Sprintf("%s. If the collector was just restarted, the "+
			"figures change when the other machines are back", waiting[n-1])})
	}
	return notices
}

// String tells how many machines the snapshot has.
func (i Incomplete) String() string {
	return fmt.Sprintf("the snapshot of %s UTC has %d of %d machines", pool.Time(i.Time).Format("2006-01-02 15:04"),
		i.Machines, i.Of)
}
