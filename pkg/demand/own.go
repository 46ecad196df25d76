package demand

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unsafe"
	"weak"

	"github.com/chtc/gpureports/pkg/counts"
	"github.com/chtc/gpureports/pkg/frames"
	"github.com/chtc/gpureports/pkg/parallel"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/stores"
	"github.com/chtc/gpureports/pkg/timeline"
)

const p90HeldPercent = "p90HeldPercent"

// The owner's guarantee: what a job's own GPUs did when its wait began (methodology section 18).

// own is an index in query.OwnGPUs.
type own uint8

const (
	ownFree     own = iota // enough of them are free
	ownBackfill            // with those that backfill jobs hold they are enough
	ownBusy                // they are not
	ownNone                // no machine has as many of them
	ownUnknown             // no snapshot shows them, or the projects of the job are not known
)

// owned is what the own GPUs of a wait did, whether it is known where the run is that ended it, and whether that is on
// a machine of one of them.
type owned struct {
	own
	knownRun, onOwn bool
}

func asksForOwn(p *query.Plan) bool {
	return slices.Contains(p.GroupBy, "ownGpus") || !p.Select.All(query.ByOwnGPUs) ||
		slices.Contains(p.Metrics, "startedOnOwnPercent")
}

// longestBefore is how long before its window an answer looks for the begin of a wait.
const longestBefore = 31 * pool.Day

// withOwn tells the own GPUs of the waits that overlap a window. One that began before it needs the snapshot that shows
// its GPUs then, and the waits in line before it: all waits are made again if they begin too late for that.
func (a *answer) withOwn(ctx context.Context, s *stores.Stores, reach pool.Window) (*answer, error) {
	// Find the earliest begin.
	begin, tooEarly := reach.To, 0
	for i := range a.all {
		switch w := &a.all[i]; {
		case !w.overlaps(reach):
		case w.Begin < reach.From-longestBefore:
			tooEarly++
		default:
			begin = min(begin, w.Begin)
		}
	}
	if tooEarly > 0 {
		a.about.Count("Waits that began too early", tooEarly, "%s began more than %d days before the time range: the data "+
			"are not searched for what their own GPUs did, which counts as unknown", frames.Count(tooEarly, "wait"),
			longestBefore/pool.Day)
	}
	// The waits must be known from the snapshot before it.
	each := *a.plan
	each.Env.SliceMinutes = 0
	near, err := counts.Slices(ctx, s.Timeline, &each, pool.Window{From: begin - pool.Day, To: begin})
	if err != nil {
		return nil, err
	}
	if slice, there := near.At(begin); there {
		begin = near.Begin[slice]
	}
	if begin < a.waits.window.From {
		about := a.about
		a, err = loadReach(ctx, s, a.plan, nil, pool.Window{From: begin, To: reach.To}, frames.Plain(a.plan))
		if err != nil || a == nil {
			return nil, err
		}
		a.about = about
	}
	// Tell their own GPUs, which are remembered with the waits.
	lists, all := a.plan.Env.Lists, a.waits.window
	key := ownMemoKey{weak.Make(a.waits), a.projects.Fingerprint, lists.Key()}
	a.owned, err = stores.Remember(s.Memo, key, func() (ownMemo, error) {
		snapshots, err := counts.Slices(ctx, s.Timeline, &each, pool.Window{From: all.From - pool.Day, To: all.To})
		if err != nil {
			return nil, err
		}
		return ownGPUs(ctx, a.listed(), snapshots, lists, all.From)
	})
	return a, err
}

type ownMemoKey struct {
	waits    weak.Pointer[remembered]
	projects uint64 // the fingerprint of the projects of users
	lists    string
}

type ownMemo []owned

func (m ownMemo) Bytes() int { return 150 + len(m)*int(unsafe.Sizeof(owned{})) }

// ownGPUs tells the own GPUs of each wait that began at a moment or later; those of earlier ones are unknown. s are
// slices that are one snapshot each. Errors are ctx's.
func ownGPUs(ctx context.Context, waits []Wait, s *timeline.Slices, lists pool.Lists,
	since pool.Micros) ([]owned, error) {
	o := &owning{waits: waits, slices: s, lists: lists, names: s.View.Names.Texts(), of: make([]owned, len(waits)),
		ahead: make([]float64, len(waits))}
	byDay := o.findSnapshots(since)
	err := parallel.EachWith(ctx, len(byDay), func(d *ownDay, i int) {
		if len(byDay[i]) > 0 {
			d.owning = o
			d.tell(&s.Days[i], byDay[i])
		}
	})
	if err != nil {
		return nil, fmt.Errorf("finding the GPUs of owners: %w", err)
	}
	return o.of, nil
}

type owning struct {
	waits  []Wait
	slices *timeline.Slices
	lists  pool.Lists
	names  []string
	of     []owned
	ahead  []float64 // GPUs of the waits in line before each
}

// placed is a wait and the snapshot at or before its begin, by its number in the day.
type placed struct {
	wait     int32
	snapshot int
}

// findSnapshots finds the snapshot that each wait begins at, and the line before it; without one a wait stays unknown.
// Returns the waits of each day, in the order of their snapshots.
func (o *owning) findSnapshots(since pool.Micros) (byDay [][]placed) {
	for i := range o.of {
		o.of[i].own = ownUnknown
	}
	byDay = make([][]placed, len(o.slices.Days))
	line := line{slice: -1}
	for _, i := range o.inLine() {
		w := &o.waits[i]
		slice, there := o.slices.At(w.Begin)
		if !there || w.Begin < since {
			continue
		}
		o.ahead[i] = line.before(w, slice, w.Begin > o.slices.Begin[slice])
		if w.NoList {
			continue
		}
		day := sort.Search(len(o.slices.Days), func(d int) bool { return o.slices.Days[d].Last >= slice })
		from, _ := o.slices.Days[day].In(slice)
		byDay[day] = append(byDay[day], placed{i, from})
	}
	for _, waits := range byDay {
		slices.SortFunc(waits, func(a, b placed) int {
			return cmp.Or(cmp.Compare(a.snapshot, b.snapshot), cmp.Compare(a.wait, b.wait))
		})
	}
	return byDay
}

// inLine returns the numbers of the waits by project, and within a project by begin and job.
func (o *owning) inLine() []int32 {
	names := o.slices.View.Names
	ids := make(map[timeline.Job]string) // making the text of a job takes as long as ten comparisons
	id := func(i int32) string {
		job := o.waits[i].Job
		if _, known := ids[job]; !known {
			ids[job] = names.JobText(job)
		}
		return ids[job]
	}
	order := make([]int32, len(o.waits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int {
		a, b := &o.waits[i], &o.waits[j]
		if c := cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Begin, b.Begin)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(id(i), id(j)), cmp.Compare(i, j))
	})
	return order
}

// line adds up the GPUs of waits with the same list that begin after the same snapshot.
type line struct {
	project timeline.Symbol
	slice   int
	gpus    float64
	// Waits of one job that begin at the same moment stand side by side.
	job   timeline.Job
	begin pool.Micros
	since float64 // gpus before the job's first wait at the moment
}

// before returns the GPUs of the waits before one, and puts it in line if it begins after the snapshot.
func (l *line) before(w *Wait, slice int, after bool) (gpus float64) {
	if w.Project != l.project || slice != l.slice {
		*l = line{project: w.Project, slice: slice}
	}
	if w.Job != l.job || w.Begin != l.begin {
		l.job, l.begin, l.since = w.Job, w.Begin, l.gpus
	}
	if after {
		l.gpus += math.Ceil(w.Request.GPUs)
	}
	return l.since
}

// ownDay tells the own GPUs of the waits that begin on one day. It is reused.
type ownDay struct {
	*owning
	gpus    []ownGPU
	members map[timeline.Symbol][]string        // the projects of a list of jobs
	stands  map[timeline.Symbol]map[string]bool // the projects of jobs that a list with priority stands for
	matches map[[2]timeline.Symbol]bool         // whether a list with priority stands for one of jobs
	sums    map[ownKey]*ownSums                 // the own GPUs at one snapshot
}

// ownGPU is a GPU that gives priority to a project at a snapshot.
type ownGPU struct {
	machine  timeline.Symbol
	priority timeline.Symbol
	memory   float64
	state    own // ownFree, ownBackfill or ownBusy
}

type ownKey struct {
	list   timeline.Symbol
	memory float64
}

type ownSums struct {
	most, all [ownNone]int // on one machine, and in all: GPUs that are in a state or a better one
	machines  []timeline.Symbol
}

// tell tells the waits of a day, in the order of their snapshots.
func (d *ownDay) tell(day *timeline.DaySlices, waits []placed) {
	d.members, d.stands = map[timeline.Symbol][]string{}, map[timeline.Symbol]map[string]bool{}
	d.matches = map[[2]timeline.Symbol]bool{}
	gpus := d.ownable(day.Day)
	snapshot := -1
	for _, p := range waits {
		if p.snapshot != snapshot {
			snapshot = p.snapshot
			d.gpus, d.sums = d.at(day.Day, gpus, snapshot), map[ownKey]*ownSums{}
		}
		w := &d.waits[p.wait]
		key := ownKey{w.Project, w.Request.GPUMemory}
		sums := d.sums[key]
		if sums == nil {
			sums = d.sum(key)
			d.sums[key] = sums
		}
		n := math.Ceil(w.Request.GPUs)
		of := &d.of[p.wait]
		of.own = sums.own(n, d.ahead[p.wait])
		if of.own == ownNone || w.Outcome != Started {
			continue
		}
		of.knownRun = w.RunOn != 0 || w.Elsewhere
		of.onOwn = w.RunOn != 0 && slices.Contains(sums.machines, w.RunOn)
	}
}

// machineGPU is a GPU of a day whose machine is not excluded.
type machineGPU struct {
	i       int
	machine timeline.Symbol
	memory  float64
}

// ownable are the GPUs of a day, those of a machine after each other.
func (d *ownDay) ownable(day *timeline.Day) (all []machineGPU) {
	for i := range day.GPUs() {
		machine := day.Machines[day.MachineOf(i)].Name
		if d.lists.ExclusionOf(d.names[machine]) == nil {
			all = append(all, machineGPU{i, machine, day.Model(i).Memory})
		}
	}
	return all
}

// at returns the GPUs that give priority to a project at a snapshot of a day, those of a machine after each other.
func (d *ownDay) at(day *timeline.Day, all []machineGPU, snapshot int) []ownGPU {
	gpus := d.gpus[:0]
	for _, c := range all {
		first, statuses := day.Spans(c.i)
		span := sort.Search(len(first), func(k int) bool { return int(first[k]) > snapshot }) - 1
		rows := day.StatusRows(statuses[span])
		row := rows[pool.Primary]
		if row.State == pool.None || row.Project == 0 {
			continue
		}
		g := ownGPU{c.machine, row.Project, c.memory, ownBusy}
		if row.State == pool.Unclaimed && !row.Prevented {
			if g.state = ownFree; rows[pool.Backfill].State == pool.Claimed {
				g.state = ownBackfill
			}
		}
		gpus = append(gpus, g)
	}
	return gpus
}

// sum counts the own GPUs of a list of projects with at least some memory.
func (d *ownDay) sum(key ownKey) *ownSums {
	sums := &ownSums{}
	var here [ownNone]int // on the machine
	gives := false
	for i, g := range d.gpus {
		if i == 0 || d.gpus[i-1].machine != g.machine {
			here = [ownNone]int{}
		}
		if i == 0 || d.gpus[i-1].priority != g.priority {
			gives = d.givesPriority(g.priority, key.list)
		}
		if !gives || key.memory > 0 && !(g.memory >= key.memory) {
			continue
		}
		if here[ownBusy] == 0 {
			sums.machines = append(sums.machines, g.machine)
		}
		for state := g.state; state <= ownBusy; state++ {
			here[state]++
			sums.all[state]++
			sums.most[state] = max(sums.most[state], here[state])
		}
	}
	return sums
}

// own tells what own GPUs were to a wait for n of them, with others in line before it.
func (s *ownSums) own(n, ahead float64) own {
	if float64(s.most[ownBusy]) < n {
		return ownNone
	}
	for state := ownFree; state < ownBusy; state++ {
		if float64(s.all[state]) >= ahead+n && float64(s.most[state]) >= n {
			return state
		}
	}
	return ownBusy
}

// givesPriority reports whether a list of projects with priority stands for a member of a list of projects of jobs.
func (d *ownDay) givesPriority(priority, list timeline.Symbol) bool {
	key := [2]timeline.Symbol{priority, list}
	match, known := d.matches[key]
	if known {
		return match
	}
	stands := d.stands[priority]
	if stands == nil {
		stands = map[string]bool{}
		for _, name := range pool.Projects(d.names[priority]) {
			for _, job := range d.lists.JobProjects(name) {
				stands[job] = true
			}
		}
		d.stands[priority] = stands
	}
	members, known := d.members[list]
	if !known {
		members = pool.Projects(d.names[list])
		d.members[list] = members
	}
	match = slices.ContainsFunc(members, func(name string) bool { return stands[name] })
	d.matches[key] = match
	return match
}
