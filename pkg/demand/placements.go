package demand

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/chtc/gpureports/pkg/pool"
	"github.com/chtc/gpureports/pkg/queues"
	"github.com/chtc/gpureports/pkg/timeline"
)

// obstacle is the first thing that keeps a job waiting, as a number in query.Obstacles (methodology section 16).
type obstacle uint8

const (
	tooFewGPUs       obstacle = iota // in the whole pool
	tooFewWithMemory                 // that have the memory
	noShape                          // on no machine so many
	noCPUs                           // on none of those
	noMemory                         // on none of those
	itFits
)

type freeMachine struct {
	symbol       timeline.Symbol
	unused       []int32 // numbers of unused GPUs that are left, the smallest one first
	sizes        []float64
	cpus, memory float64
}

// suitable returns how many of the GPUs that are left have at least the given memory; 0 means any.
func (s *freeMachine) suitable(memory float64) int { return len(s.sizes) - firstFit(s.sizes, memory) }

type request queues.Request

// n is how many GPUs a job with the request takes.
func (w *request) n() int { return int(math.Ceil(w.GPUs)) }

type placement struct {
	wait     int32
	obstacle obstacle
}

type requests struct {
	all []request
	of  []int32 // by wait
}

func requestsOf(waits []Wait) *requests {
	of := make([]int32, len(waits))
	var all pool.Numbered[request]
	for i := range waits {
		of[i] = all.Number(request(waits[i].Request))
	}
	return &requests{all.All, of}
}

// answered is the obstacle that a request met in a round; 0: none yet.
type answered struct {
	obstacle
	round int // from 1
}

// placements are the turns that jobs take at a poll. A round ends when a job takes GPUs: until then the free ones stay
// the same.
type placements struct {
	*requests
	unused   []unusedGPU // the unused GPUs, with why: after the turns the final reason
	machines []freeMachine
	sizes    []float64  // the different ones of their GPUs, ascending
	left     []int      // GPUs that are left, by the class of their size and larger ones; 0: all
	widest   int        // the most GPUs of a machine
	groups   []*group   // groups of requests, by class and number of GPUs; nil: none was met
	placed   []int      // machines that jobs took GPUs of, one after another
	answers  []answered // by request
	order    []placement
	took     map[int32]int // unused GPUs that were taken: the turns of their jobs
	unfit    []int         // by request: jobs that did not fit
	lacking  []int32       // the requests of those jobs
}

// place lets waiting jobs take their turns at a slice.
func (k *unusedGPUs) place(slice int, of *requests, waiting []int32) *placements {
	w := &placements{requests: of, unused: slices.Clone(k.unused[slice]), unfit: make([]int, len(of.all)),
		took: map[int32]int{}, answers: make([]answered, len(of.all)), order: make([]placement, 0, len(waiting))}
	for n, u := range w.unused {
		if u.why != noDemand {
			continue
		}
		g := &k.gpus[u.gpu]
		if last := len(w.machines) - 1; last < 0 || w.machines[last].symbol != g.Machine {
			room := k.room(slice, g.machine)
			w.machines = append(w.machines, freeMachine{symbol: g.Machine, cpus: enough(room.Cpus), memory: enough(room.Memory)})
		}
		s := &w.machines[len(w.machines)-1]
		s.unused, s.sizes = append(s.unused, int32(n)), append(s.sizes, g.size)
		w.sizes = append(w.sizes, g.size)
		w.widest = max(w.widest, len(s.sizes))
	}
	slices.Sort(w.sizes)
	w.sizes = slices.Compact(w.sizes)
	w.left = make([]int, len(w.sizes)+2)
	for i := range w.machines {
		w.count(w.machines[i].sizes, 1)
	}
	w.groups = make([]*group, len(w.left)*(w.widest+2))
	for _, wait := range waiting {
		w.take(wait, of.of[wait])
	}
	w.explain()
	return w
}

// class is the class of a size: 0 for any, the last for one that no GPU has.
func (w *placements) class(memory float64) int {
	if memory == 0 {
		return 0
	}
	return 1 + sort.SearchFloat64s(w.sizes, memory)
}

// count adds GPUs to those that are left, or with -1 takes them away.
func (w *placements) count(sizes []float64, by int) {
	w.left[0] += by * len(sizes)
	for _, size := range sizes {
		for class := 1 + sort.SearchFloat64s(w.sizes, size); class > 0; class-- {
			w.left[class] += by
		}
	}
}

// take is the turn of a job with a request.
func (w *placements) take(wait, request int32) {
	found, round := &w.answers[request], 1+len(w.placed)
	if found.round != round {
		var on int
		wants := &w.all[request]
		g := w.groupOf(wants)
		found.round = round
		if found.obstacle, on = w.find(g, wants); found.obstacle == itFits {
			w.give(wants, on)
		} else if w.unfit[request] == 0 {
			g.least, g.most = min(g.least, wants.CPUs), max(g.most, wants.CPUs)
		}
	}
	if found.obstacle != itFits {
		if w.unfit[request] == 0 {
			w.lacking = append(w.lacking, request)
		}
		w.unfit[request]++
	}
	w.order = append(w.order, placement{wait, found.obstacle})
}

// group are requests for the same GPUs: their number, where more than a machine has are all the same, and the class of
// their size. There are few, however much the requests differ, so that a job's turn does not look at each machine.
type group struct {
	n, class    int
	machines    []candidate // that have these GPUs, those with most CPUs first
	memory      []float64   // the most that one of the first machines has, by their number less one
	seen        int         // how many of placed the machines are up to date with; -1: there are none yet
	least, most float64     // CPUs that requests of jobs that did not fit ask for
}

type candidate struct {
	machine, fitting int
	cpus, memory     float64
}

func (w *placements) groupOf(wants *request) *group {
	n, class := min(wants.n(), w.widest+1), w.class(wants.GPUMemory)
	g := &w.groups[class*(w.widest+2)+n]
	if *g == nil {
		*g = &group{n: n, class: class, seen: -1, least: math.Inf(1), most: math.Inf(-1)}
	}
	return *g
}

// find returns the obstacle of a request among the remaining GPUs, and the machine that serves it: of those with the
// fewest GPUs that fit the first.
func (w *placements) find(g *group, wants *request) (found obstacle, on int) {
	switch n := wants.n(); {
	case w.left[0] < n:
		return tooFewGPUs, 0
	case w.left[g.class] < n:
		return tooFewWithMemory, 0
	}
	w.update(g)
	enough := sort.Search(len(g.machines), func(i int) bool { return g.machines[i].cpus < wants.CPUs })
	switch {
	case len(g.machines) == 0:
		return noShape, 0
	case enough == 0:
		return noCPUs, 0
	case g.memory[enough-1] < wants.Memory:
		return noMemory, 0
	}
	var best *candidate
	for i := range g.machines[:enough] {
		m := &g.machines[i]
		if m.memory >= wants.Memory && (best == nil || m.fitting < best.fitting ||
			m.fitting == best.fitting && m.machine < best.machine) {
			best = m
		}
	}
	return itFits, best.machine
}

// update finds the machines of a group, or moves those back in the order that have fewer CPUs since jobs took GPUs.
func (w *placements) update(g *group) {
	if g.seen == len(w.placed) {
		return
	}
	// Find the machines with enough fitting GPUs, or renew those on which jobs were placed since.
	size := 0.0 // any
	if g.class > 0 {
		size = append(w.sizes, math.Inf(1))[g.class-1]
	}
	same := 0 // machines that have kept their places
	if g.seen < 0 {
		for machine := range w.machines {
			s := &w.machines[machine]
			if fitting := s.suitable(size); fitting >= g.n {
				g.machines = append(g.machines, candidate{machine, fitting, s.cpus, s.memory})
			}
		}
		slices.SortStableFunc(g.machines, func(a, b candidate) int { return cmp.Compare(b.cpus, a.cpus) })
	} else {
		same = len(g.machines)
		for _, machine := range w.placed[g.seen:] {
			at := slices.IndexFunc(g.machines, func(m candidate) bool { return m.machine == machine })
			if at < 0 {
				continue
			}
			same = min(same, at)
			s := &w.machines[machine]
			fitting := s.suitable(size)
			if fitting < g.n {
				g.machines = slices.Delete(g.machines, at, at+1)
				continue
			}
			for ; at+1 < len(g.machines) && g.machines[at+1].cpus > s.cpus; at++ {
				g.machines[at] = g.machines[at+1]
			}
			g.machines[at] = candidate{machine, fitting, s.cpus, s.memory}
		}
	}
	// Renew the most memory of the first machines, from the first one that has moved.
	g.seen, g.memory = len(w.placed), g.memory[:same]
	most := math.Inf(-1)
	if same > 0 {
		most = g.memory[same-1]
	}
	for i := range g.machines[same:] {
		most = max(most, g.machines[same+i].memory)
		g.memory = append(g.memory, most)
	}
}

// give gives a job the smallest GPUs of a machine that do.
func (w *placements) give(wants *request, machine int) {
	on := &w.machines[machine]
	first, n := firstFit(on.sizes, wants.GPUMemory), wants.n()
	for _, u := range on.unused[first : first+n] {
		w.unused[u].why = aJobFits
		w.took[u] = len(w.order)
	}
	w.count(on.sizes[first:first+n], -1)
	on.unused = slices.Delete(on.unused, first, first+n)
	on.sizes = slices.Delete(on.sizes, first, first+n)
	on.cpus -= wants.CPUs
	on.memory -= wants.Memory
	w.placed = append(w.placed, machine)
}

// explain finds why the remaining GPUs are unused.
func (w *placements) explain() {
	lacking := slices.DeleteFunc(slices.Clone(w.groups), func(g *group) bool { return g == nil || g.least > g.most })
	for i := range w.machines {
		s := &w.machines[i]
		size, why := math.NaN(), noDemand
		for n, u := range s.unused {
			if s.sizes[n] != size {
				size, why = s.sizes[n], w.reasonOf(lacking, s, s.sizes[n])
			}
			w.unused[u].why = why
		}
	}
}

// reasonOf returns why GPUs of a size are unused on a machine: the first of the reasons why jobs did not take them.
func (w *placements) reasonOf(lacking []*group, s *freeMachine, size float64) reason {
	why, own := noDemand, 1+sort.SearchFloat64s(w.sizes, size)
	for _, g := range lacking {
		switch {
		case g.class > own:
			why = min(why, lacksMemOfGPU)
		case g.class > 0 && s.suitable(w.sizes[g.class-1]) < g.n, g.class == 0 && len(s.sizes) < g.n:
			why = min(why, lacksGPUs)
		case g.most > s.cpus:
			why = min(why, lacksCPUs)
			fallthrough
		default: // the jobs did not fit, and the remaining memory never grows
			if g.least <= s.cpus {
				why = min(why, lacksMemory)
			}
		}
	}
	return why
}

// helps returns how many more CPUs, or how much more memory in MiB, would serve jobs that lack only this on a machine,
// and how many jobs, each on its own; NaN if nothing of the kind does.
func (w *placements) helps(s *freeMachine, ofMemory bool) (missing float64, jobs int) {
	lacks := func(wants *request) float64 { // +Inf: something else, too
		switch {
		case s.suitable(wants.GPUMemory) < wants.n():
		case ofMemory && s.cpus >= wants.CPUs:
			return wants.Memory - s.memory
		case !ofMemory && s.memory >= wants.Memory:
			return wants.CPUs - s.cpus
		}
		return math.Inf(1)
	}
	missing = math.Inf(1)
	for _, n := range w.lacking {
		missing = min(missing, lacks(&w.all[n]))
	}
	if math.IsInf(missing, 1) {
		return math.NaN(), 0
	}
	for _, n := range w.lacking {
		if lacks(&w.all[n]) <= missing {
			jobs += w.unfit[n]
		}
	}
	return missing, jobs
}
