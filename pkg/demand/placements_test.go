package demand

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/chtc/gpureports/pkg/internal/dev/naive"
	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/query"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// The oracle implements methodology section 16 sentence by sentence: each job considers every GPU of every machine.

type naiveGPU struct {
	machine, id string
	memory      float64 // −1: unknown
	why         string
	taken       bool
}

type naiveMachine struct {
	name         string
	cpus, memory float64
}

// suits reports whether a GPU is not taken yet and has at least the given memory.
func (g *naiveGPU) suits(memory float64) bool {
	return g.why == "" && !g.taken && (memory == 0 || g.memory >= memory)
}

func countGPUs(gpus []*naiveGPU, suits func(*naiveGPU) bool) (n int) {
	for _, g := range gpus {
		if suits(g) {
			n++
		}
	}
	return n
}

// naiveTurn is a job's turn.
func naiveTurn(r queues.Request, machines []*naiveMachine, gpus []*naiveGPU) string {
	n := int(math.Ceil(r.GPUs))
	on := func(m *naiveMachine) int {
		return countGPUs(gpus, func(g *naiveGPU) bool { return g.machine == m.name && g.suits(r.GPUMemory) })
	}
	keep := func(all []*naiveMachine, has func(*naiveMachine) bool) (kept []*naiveMachine) {
		for _, m := range all {
			if has(m) {
				kept = append(kept, m)
			}
		}
		return kept
	}
	if countGPUs(gpus, func(g *naiveGPU) bool { return g.suits(0) }) < n {
		return "gpus"
	}
	if countGPUs(gpus, func(g *naiveGPU) bool { return g.suits(r.GPUMemory) }) < n {
		return "gpuMemory"
	}
	left := keep(machines, func(m *naiveMachine) bool { return on(m) >= n })
	if len(left) == 0 {
		return "shape"
	}
	if left = keep(left, func(m *naiveMachine) bool { return m.cpus >= r.CPUs }); len(left) == 0 {
		return "cpus"
	}
	if left = keep(left, func(m *naiveMachine) bool { return m.memory >= r.Memory }); len(left) == 0 {
		return "memory"
	}
	sort.SliceStable(left, func(i, k int) bool {
		return on(left[i]) < on(left[k]) || on(left[i]) == on(left[k]) && left[i].name < left[k].name
	})
	var fitting []*naiveGPU
	for _, g := range gpus {
		if g.machine == left[0].name && g.suits(r.GPUMemory) {
			fitting = append(fitting, g)
		}
	}
	sort.SliceStable(fitting, func(i, k int) bool {
		return fitting[i].memory < fitting[k].memory ||
			fitting[i].memory == fitting[k].memory && fitting[i].id < fitting[k].id
	})
	for _, g := range fitting[:n] {
		g.taken = true
	}
	left[0].cpus -= r.CPUs
	left[0].memory -= r.Memory
	return "fits"
}

// naiveReason is why a GPU is unused once all jobs have taken their turns.
func naiveReason(g *naiveGPU, m *naiveMachine, unfit []queues.Request, gpus []*naiveGPU) string {
	if g.why != "" {
		return g.why
	}
	if g.taken {
		return "fits"
	}
	found := "noDemand"
	rank := func(reason string) int { return slices.Index(query.Reasons, reason) }
	for _, r := range unfit {
		here := countGPUs(gpus, func(o *naiveGPU) bool { return o.machine == m.name && o.suits(r.GPUMemory) })
		reason := "gpuMemory"
		if g.suits(r.GPUMemory) {
			switch n := int(math.Ceil(r.GPUs)); {
			case here < n:
				reason = "shape"
			case m.cpus < r.CPUs:
				reason = "cpus"
			case m.memory < r.Memory:
				reason = "memory"
			}
		}
		if rank(reason) < rank(found) {
			found = reason
		}
	}
	return found
}

// inLine are the waits of the poll 1, in the order in which they are served.
func inLine(waits []Wait, names *timeline.Names) (waiting []int32) {
	for _, s := range lineOf(waits, &Polls{Times: []pool.Micros{1}}, names, 0, 0) {
		waiting = append(waiting, s.wait)
	}
	return waiting
}

func TestTurnsAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := timeline.NewNames()
		rooms := map[string]timeline.Room{}
		k := &unusedGPUs{unused: make([][]unusedGPU, 1),
			room: func(_ int, machine string) timeline.Room { return rooms[machine] }}
		var machines []*naiveMachine
		var gpus []*naiveGPU
		for m := range rapid.IntRange(1, 4).Draw(t, "machines") {
			machine := &naiveMachine{name: fmt.Sprintf("m%d", m), cpus: math.Inf(1), memory: math.Inf(1)}
			room := timeline.Room{Cpus: float32(math.NaN()), Memory: float32(math.NaN())}
			if rapid.Bool().Draw(t, "tells") {
				room.Cpus = float32(rapid.IntRange(0, 20).Draw(t, "cpus"))
				room.Memory = float32(rapid.IntRange(0, 20).Draw(t, "memory"))
				machine.cpus, machine.memory = float64(room.Cpus), float64(room.Memory)
			}
			rooms[machine.name] = room
			machines = append(machines, machine)
			for i := range rapid.IntRange(0, 5).Draw(t, "gpus") {
				g := &naiveGPU{machine: machine.name, id: fmt.Sprintf("GPU-%d", i),
					memory: rapid.SampledFrom([]float64{-1, 20, 40, 80}).Draw(t, "size"),
					why:    rapid.SampledFrom([]string{"", "", "", "", "", "prevented", "drained", "other"}).Draw(t, "why")}
				gpus = append(gpus, g)
			}
		}
		sort.SliceStable(gpus, func(i, k int) bool {
			a, b := gpus[i], gpus[k]
			return a.machine < b.machine ||
				a.machine == b.machine && (a.memory < b.memory || a.memory == b.memory && a.id < b.id)
		})
		for n, g := range gpus {
			k.gpus = append(k.gpus, placedGPU{Place: timeline.Place{Machine: names.Symbol(g.machine)}, machine: g.machine,
				id: g.id, size: g.memory})
			why := noDemand
			if g.why != "" {
				why = reason(slices.Index(query.Reasons, g.why))
			}
			k.unused[0] = append(k.unused[0], unusedGPU{int32(n), why})
		}
		var waits []Wait
		for i := range rapid.IntRange(0, 15).Draw(t, "jobs") {
			waits = append(waits, Wait{Job: names.Job(fmt.Sprintf("ap#%d.%d#1", rapid.IntRange(1, 99).Draw(t, "cluster"), i)),
				First: 1, Last: 1, Request: queues.Request{
					GPUs:      rapid.SampledFrom([]float64{1, 1, 1, 1.5, 2, 3}).Draw(t, "n"),
					GPUMemory: rapid.SampledFrom([]float64{0, 0, 30, 40, 90}).Draw(t, "m"),
					CPUs:      rapid.SampledFrom([]float64{0, 1, 4, 12}).Draw(t, "c"),
					Memory:    rapid.SampledFrom([]float64{0, 2, 9}).Draw(t, "r"),
				}})
		}
		got := k.place(0, requestsOf(waits), inLine(waits, names))
		require.Len(t, got.order, len(waits))

		order := slices.Clone(waits)
		sort.SliceStable(order, func(i, k int) bool {
			a, b := order[i].Request, order[k].Request
			if a.GPUMemory != b.GPUMemory {
				return a.GPUMemory > b.GPUMemory
			}
			if math.Ceil(a.GPUs) != math.Ceil(b.GPUs) {
				return math.Ceil(a.GPUs) > math.Ceil(b.GPUs)
			}
			return names.JobText(order[i].Job) < names.JobText(order[k].Job)
		})
		var unfit []queues.Request
		for i, w := range order {
			want := naiveTurn(w.Request, machines, gpus)
			require.Equal(t, w.Job, waits[got.order[i].wait].Job)
			require.Equal(t, want, query.Obstacles[got.order[i].obstacle], "turn %d: %+v", i, w.Request)
			if want != "fits" {
				unfit = append(unfit, w.Request)
			}
		}
		for n, g := range gpus {
			m := machines[slices.IndexFunc(machines, func(m *naiveMachine) bool { return m.name == g.machine })]
			require.Equal(t, naiveReason(g, m, unfit, gpus), query.Reasons[got.unused[n].why], "%+v", g)
		}
		for i := range got.machines {
			s := &got.machines[i]
			m := machines[slices.IndexFunc(machines, func(m *naiveMachine) bool { return names.Symbol(m.name) == s.symbol })]
			for _, ofMemory := range []bool{false, true} {
				want, jobs := naiveHelp(m, unfit, gpus, ofMemory)
				missing, served := got.helps(s, ofMemory)
				require.Equal(t, jobs, served)
				require.True(t, want == missing || math.IsNaN(want) && math.IsNaN(missing))
			}
		}
	})
}

// naiveHelp tries each amount that one of the jobs lacks.
func naiveHelp(m *naiveMachine, unfit []queues.Request, gpus []*naiveGPU, ofMemory bool) (missing float64, jobs int) {
	serves := func(cpus, memory float64) (n int) {
		for _, r := range unfit {
			here := countGPUs(gpus, func(o *naiveGPU) bool { return o.machine == m.name && o.suits(r.GPUMemory) })
			if here >= int(math.Ceil(r.GPUs)) && r.CPUs <= m.cpus+cpus && r.Memory <= m.memory+memory {
				n++
			}
		}
		return n
	}
	missing = math.NaN()
	for _, r := range unfit {
		cpus, memory := r.CPUs-m.cpus, 0.0
		if ofMemory {
			cpus, memory = 0, r.Memory-m.memory
		}
		more := cpus + memory
		if more > 0 && serves(cpus, memory) > 0 && !(more >= missing) {
			missing, jobs = more, serves(cpus, memory)
		}
	}
	return missing, jobs
}

// emptyGPUs is a poll with free machines of two GPUs of 40 GB, and a CPU and a GB of memory each.
func emptyGPUs(machines int) *unusedGPUs {
	room := func(int, string) timeline.Room { return timeline.Room{Cpus: 1, Memory: 1000} }
	k := &unusedGPUs{unused: make([][]unusedGPU, 1), room: room}
	for m := range machines {
		for range 2 {
			k.unused[0] = append(k.unused[0], unusedGPU{int32(len(k.gpus)), noDemand})
			k.gpus = append(k.gpus, placedGPU{machine: fmt.Sprint(m), Place: timeline.Place{Machine: timeline.Symbol(m + 1)},
				size: 40000})
		}
	}
	return k
}

// distinctWaits are waits whose requests differ in all that a user chooses.
func distinctWaits(n int) (waits []Wait, line []int32) {
	for i := range n {
		r := queues.Request{GPUs: 1 + float64(i%7), CPUs: 1, Memory: 2000 + float64(i), GPUMemory: 30000 + float64(i)/9}
		if i%2 == 0 {
			r.CPUs, r.Memory = 1+float64(i), 500
		}
		waits, line = append(waits, Wait{Request: r}), append(line, int32(i))
	}
	return waits, line
}

// However much the requests of jobs differ, they are few groups, so that a turn does not look at each machine, and the
// reason of each GPU is one of these groups'.
func TestDistinctRequests(t *testing.T) {
	waits, line := distinctWaits(2000)
	got := emptyGPUs(100).place(0, requestsOf(waits), line)
	groups := 0
	for _, g := range got.groups {
		if g != nil {
			groups++
		}
	}
	require.Equal(t, 3, groups, "one GPU, two, and more than a machine has")
	require.Len(t, got.lacking, 1999)
	require.Equal(t, itFits, got.order[0].obstacle, "the first asks for 500 MB and a CPU")
	seen := map[obstacle]int{}
	for _, turn := range got.order {
		seen[turn.obstacle]++
	}
	require.Equal(t, map[obstacle]int{itFits: 1, noShape: 1428, noCPUs: 285, noMemory: 286}, seen)
}

// sight is a row of a queue file; times are minutes.
type sight struct {
	job, first, last, queued int
	running                  bool
}

// held is a run of a job.
type held struct {
	start, end, seen int // seen: 0 = by no snapshot
	estimated, whole bool
}

func at(minutes int) int64 { return int64(minutes) * 60e6 }

// oracle is the drawn case as pkg/internal/dev/naive takes it.
func (d *drawn) oracle() *naive.Queues {
	var rows []naive.Row
	for _, r := range d.rows {
		rows = append(rows, naive.Row{Job: jobText(r.job), First: at(r.first), Last: at(r.last), Queued: at(r.queued),
			Running: r.running})
	}
	return naive.New(rows)
}

// waits are those of a job by the oracle.
func (d *drawn) waits(n *naive.Queues, job int) []naive.Wait {
	var runs []naive.Run
	for _, r := range d.runs[job] {
		runs = append(runs, naive.Run{Start: at(r.start), End: at(r.end), Seen: at(r.seen), Estimated: r.estimated,
			Whole: r.whole})
	}
	return n.Waits(jobText(job), runs)
}

// case drawn at random: polls at irregular distances with gaps, jobs that idle and run.
type drawn struct {
	rows []sight
	runs map[int][]held
}

const (
	minutesOfDay = 24 * 60
	base         = 1_800_000 // minutes since 1970, of a UTC midnight
)

func draw(t *rapid.T) (d drawn) {
	d.runs = map[int][]held{}
	regular := rapid.SampledFrom([]int{6, 30, 48}).Draw(t, "cadence")
	now := base + 2*rapid.IntRange(0, minutesOfDay/2).Draw(t, "begin")
	var polls []int
	for range rapid.IntRange(2, 40).Draw(t, "polls") {
		polls = append(polls, now)
		now += regular * rapid.SampledFrom([]int{1, 1, 1, 1, 1, 1, 2, 3, 4, 9}).Draw(t, "distance")
	}
	for job := range rapid.IntRange(1, 4).Draw(t, "jobs") {
		at := 0
		queued := polls[0] - rapid.IntRange(0, 100).Draw(t, "queued")
		for at < len(polls) && rapid.IntRange(0, 5).Draw(t, "again") > 0 {
			first := at + rapid.IntRange(0, 3).Draw(t, "pause")
			last := first + rapid.IntRange(0, 8).Draw(t, "idle")
			if last >= len(polls) {
				break
			}
			d.rows = append(d.rows, sight{job, polls[first], polls[last], min(queued, polls[first]),
				rapid.IntRange(0, 3).Draw(t, "runs") == 0})
			at = last + 1
		}
		t0 := polls[0] - 50
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			start := t0 + rapid.SampledFrom([]int{0, 1, 2, 5, regular, 3 * regular, 8 * regular}).Draw(t, "start")
			end := start + rapid.IntRange(0, 6*regular).Draw(t, "ran")
			r := held{start: start, end: end, estimated: rapid.Bool().Draw(t, "estimated"), whole: rapid.Bool().Draw(t, "whole")}
			if r.estimated || rapid.Bool().Draw(t, "seen") {
				r.seen = min(start+rapid.SampledFrom([]int{0, 1, 5, regular}).Draw(t, "first seen"), max(start, end))
			}
			d.runs[job] = append(d.runs[job], r)
			t0 = rapid.SampledFrom([]int{start, end, end, end}).Draw(t, "next")
		}
	}
	return d
}

// view is what the product reads of drawn rows.
func (d *drawn) view() (*queues.View, *timeline.Names) {
	names := timeline.NewNames()
	days := map[int32]*queues.Day{}
	for _, r := range d.rows {
		row := queues.Row{Job: names.Job(jobText(r.job)), First: uint32(r.first * 60), Last: uint32(r.last * 60),
			QDate: uint32(r.queued * 60), Request: uint32(r.job), Running: r.running}
		date := pool.DayOf(micros(row.First))
		if days[date] == nil {
			days[date] = &queues.Day{Date: date}
		}
		days[date].Rows = append(days[date].Rows, row)
	}
	v := &queues.View{Names: names}
	for date := int32(0); len(days) > 0; date++ {
		day := days[date]
		if day == nil {
			continue
		}
		delete(days, date)
		for _, r := range day.Rows {
			day.Times = append(day.Times, r.First, r.Last)
			day.Last = max(day.Last, r.Last)
		}
		v.Days = append(v.Days, day)
	}
	v.Requests = [][]queues.Request{{{GPUs: 1}, {GPUs: 2, GPUMemory: 40000}, {GPUs: 1, GPUMemory: 80000}, {GPUs: 3}}}
	return v, names
}

func jobText(job int) string { return fmt.Sprintf("ap1#%d.0#1", 100+job) }

func (d *drawn) known(names *timeline.Names) map[timeline.Job]*jobRuns {
	known := map[timeline.Job]*jobRuns{}
	for job, runs := range d.runs {
		of := &jobRuns{}
		known[names.Job(jobText(job))] = of
		for _, r := range runs {
			of.runs = append(of.runs,
				Run{Start: pool.Micros(r.start) * pool.Minute, End: pool.Micros(r.end) * pool.Minute,
					Seen: pool.Micros(r.seen) * pool.Minute, Estimated: r.estimated, Whole: r.whole})
		}
		sortRuns(of.runs)
	}
	return known
}

func TestWaitsAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		v, names := d.view()
		known := d.known(names)
		p := NewPolls(v.Days)
		n := d.oracle()
		require.Equal(t, n.Polls, p.Times)
		for i, poll := range n.Polls {
			require.InDelta(t, n.Cadence(poll), p.Cadence(poll), 0.5)
			if i+1 < len(n.Polls) {
				require.Equal(t, n.Known(i), p.heldFrom(poll).to != 0, "gap after %d", poll)
			}
		}
		for _, rows := range rowsByJob(v, 0) {
			job := int(rows.idle[0].Request)
			var got []naive.Wait
			for _, w := range waitsOfAll(p, []sightings{rows}, known, v, false) {
				got = append(got, naive.Wait{Begin: w.Begin, End: w.End, First: w.First, Last: w.Last, Counted: w.Counted,
					Attempts: int(w.Attempts), Outcome: []string{"waiting", "started", "left", "unknown"}[w.Outcome], Ran: w.Ran,
					RanUntil: w.RanUntil, Elsewhere: w.Elsewhere})
			}
			want := d.waits(n, job)
			for i := range want {
				want[i].AtQDate = false
			}
			require.Equal(t, want, got, "%v %v", d.rows, d.runs[job])
		}
	})
}

// A poller extends a running row over polls at which the job was idle: the rows before and behind are one wait, because
// a run that began more than a cadence before the last poll of the first one does not separate them.
func TestRunThatBeganLongBefore(t *testing.T) {
	half := func(n int) int { return base + 30*n }
	for start, waits := range map[int]int{half(2) - 1: 1, half(2): 1, half(2) + 1: 2} {
		d := drawn{rows: []sight{{0, half(2), half(3), half(2), false}, {0, half(4), half(5), half(2), false}},
			runs: map[int][]held{0: {{start: start, end: half(3) + 20, seen: start}}}}
		v, names := d.view()
		p := NewPolls(v.Days)
		require.Len(t, waitsOfAll(p, rowsByJob(v, 0), d.known(names), v, false), waits, "a run from %d", start-half(2))
		require.Len(t, d.waits(d.oracle(), 0), waits)
	}
}
