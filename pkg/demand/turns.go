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

// obstacle is the first thing that keeps a job waiting, the number of a word in query.Obstacles (methodology section
// 16).
type obstacle uint8

const (
	tooFewGPUs       obstacle = iota // in the whole pool
	tooFewWithMemory                 // that have the memory
	noShape                          // on no machine so many
	noCPUs                           // on none of those
	noMemory                         // on none of those
	itFits
)

// shelf is a machine with free GPUs.
type shelf struct {
	symbol       timeline.Symbol
	units        []int32 // numbers of units that are left, the smallest GPU first
	sizes        []float64
	cpus, memory float64
}

// suitable returns how many of the GPUs that are left have at least the given memory; 0 means any.
func (s *shelf) suitable(memory float64) int { return len(s.sizes) - firstFit(s.sizes, memory) }

// wish is a request of jobs.
type wish queues.Request

// n is how many GPUs a job with the wish takes.
func (w *wish) n() int { return int(math.Ceil(w.GPUs)) }

// turn is the turn of a job.
type turn struct {
	wait     int32
	obstacle obstacle
}

// wishes are the requests of all waits.
type wishes struct {
	all []wish
	of  []int32 // by wait
}

func wishesOf(waits []Wait) *wishes {
	of := make([]int32, len(waits))
	var all pool.Numbered[wish]
	for i := range waits {
		of[i] = all.Number(wish(waits[i].Request))
	}
	return &wishes{all.All, of}
}

// answered is the obstacle that a wish met in a round; 0: none yet.
type answered struct {
	obstacle
	round int
}

// turns are the turns that jobs take at a poll. A round ends when a job takes GPUs: until then the free ones stay the
// same.
type turns struct {
	*wishes
	units   []unit // the unused GPUs, with why: after the turns the final reason
	shelves []shelf
	sizes   []float64  // the different ones of their GPUs, ascending
	left    []int      // GPUs that are left, by the class of their size and larger ones; 0: all
	widest  int        // the most GPUs of a machine
	groups  []*group   // of wishes, by class and number of GPUs; nil: none was met
	placed  []int      // shelves that jobs took GPUs of, one after another
	round   int        // from 1
	answers []answered // by wish
	order   []turn
	took    map[int32]int // units that were taken: the turns of their jobs
	unfit   []int         // by wish: jobs that did not fit
	lacking []int32       // the wishes of those jobs
}

// turns lets waiting jobs take their turns at a slice.
func (k *stock) turns(slice int, of *wishes, waiting []int32) *turns {
	w := &turns{wishes: of, units: slices.Clone(k.units[slice]), unfit: make([]int, len(of.all)), took: map[int32]int{},
		round: 1, answers: make([]answered, len(of.all)), order: make([]turn, 0, len(waiting))}
	for n, u := range w.units {
		if u.why != noDemand {
			continue
		}
		g := &k.gpus[u.gpu]
		if last := len(w.shelves) - 1; last < 0 || w.shelves[last].symbol != g.Machine {
			room := k.room(slice, g.machine)
			w.shelves = append(w.shelves, shelf{symbol: g.Machine, cpus: enough(room.Cpus), memory: enough(room.Memory)})
		}
		s := &w.shelves[len(w.shelves)-1]
		s.units, s.sizes = append(s.units, int32(n)), append(s.sizes, g.size)
		w.sizes = append(w.sizes, g.size)
		w.widest = max(w.widest, len(s.sizes))
	}
	slices.Sort(w.sizes)
	w.sizes = slices.Compact(w.sizes)
	w.left = make([]int, len(w.sizes)+2)
	for i := range w.shelves {
		w.count(w.shelves[i].sizes, 1)
	}
	w.groups = make([]*group, len(w.left)*(w.widest+2))
	for _, wait := range waiting {
		w.take(wait, of.of[wait])
	}
	w.explain()
	return w
}

// class is the class of a size: 0 for any, the last for one that no GPU has.
func (w *turns) class(memory float64) int {
	if memory == 0 {
		return 0
	}
	return 1 + sort.SearchFloat64s(w.sizes, memory)
}

// count adds GPUs to those that are left, or with -1 takes them away.
func (w *turns) count(sizes []float64, by int) {
	w.left[0] += by * len(sizes)
	for _, size := range sizes {
		for class := 1 + sort.SearchFloat64s(w.sizes, size); class > 0; class-- {
			w.left[class] += by
		}
	}
}

// take is the turn of a job with a wish.
func (w *turns) take(wait, wish int32) {
	found := &w.answers[wish]
	if found.round != w.round {
		wants, on := &w.all[wish], 0
		g := w.groupOf(wants)
		found.round = w.round
		if found.obstacle, on = w.find(g, wants); found.obstacle == itFits {
			w.place(wants, on)
		} else if w.unfit[wish] == 0 {
			g.least, g.most = min(g.least, wants.CPUs), max(g.most, wants.CPUs)
		}
	}
	if found.obstacle != itFits {
		if w.unfit[wish] == 0 {
			w.lacking = append(w.lacking, wish)
		}
		w.unfit[wish]++
	}
	w.order = append(w.order, turn{wait, found.obstacle})
}

// group are wishes for the same GPUs: their number, where more than a machine has are all the same, and the class of
// their size. There are few, however much the wishes differ, so that a job's turn does not look at each machine.
type group struct {
	n, class    int
	machines    []candidate // that have these GPUs, those with most CPUs first
	memory      []float64   // the most that one of the first machines has, by their number less one
	seen        int         // how many of placed the machines are up to date with; -1: there are none yet
	least, most float64     // CPUs that wishes of jobs that did not fit ask for
}

// candidate is a machine, and how many of its GPUs fit.
type candidate struct {
	shelf, fitting int
	cpus, memory   float64
}

// groupOf returns the group of a wish.
func (w *turns) groupOf(wants *wish) *group {
	n, class := min(wants.n(), w.widest+1), w.class(wants.GPUMemory)
	g := &w.groups[class*(w.widest+2)+n]
	if *g == nil {
		*g = &group{n: n, class: class, seen: -1, least: math.Inf(1), most: math.Inf(-1)}
	}
	return *g
}

// find returns the obstacle of a wish among the remaining GPUs, and the machine that serves it: of those with the fewest
// GPUs that fit the first.
func (w *turns) find(g *group, wants *wish) (found obstacle, on int) {
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
			m.fitting == best.fitting && m.shelf < best.shelf) {
			best = m
		}
	}
	return itFits, best.shelf
}

// update finds the machines of a group, or what is left of those that jobs took GPUs of since: they have fewer CPUs, and
// move back in the order.
func (w *turns) update(g *group) {
	if g.seen == len(w.placed) {
		return
	}
	size := 0.0 // any
	if g.class > 0 {
		size = append(w.sizes, math.Inf(1))[g.class-1]
	}
	same := 0 // machines that have kept their places
	if g.seen < 0 {
		for shelf := range w.shelves {
			s := &w.shelves[shelf]
			if fitting := s.suitable(size); fitting >= g.n {
				g.machines = append(g.machines, candidate{shelf, fitting, s.cpus, s.memory})
			}
		}
		slices.SortStableFunc(g.machines, func(a, b candidate) int { return cmp.Compare(b.cpus, a.cpus) })
	} else {
		same = len(g.machines)
		for _, shelf := range w.placed[g.seen:] {
			at := slices.IndexFunc(g.machines, func(m candidate) bool { return m.shelf == shelf })
			if at < 0 {
				continue
			}
			same = min(same, at)
			s := &w.shelves[shelf]
			fitting := s.suitable(size)
			if fitting < g.n {
				g.machines = slices.Delete(g.machines, at, at+1)
				continue
			}
			for ; at+1 < len(g.machines) && g.machines[at+1].cpus > s.cpus; at++ {
				g.machines[at] = g.machines[at+1]
			}
			g.machines[at] = candidate{shelf, fitting, s.cpus, s.memory}
		}
	}
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

// place gives a job the smallest GPUs of a machine that do.
func (w *turns) place(wants *wish, shelf int) {
	on := &w.shelves[shelf]
	first, n := firstFit(on.sizes, wants.GPUMemory), wants.n()
	for _, u := range on.units[first : first+n] {
		w.units[u].why = aJobFits
		w.took[u] = len(w.order)
	}
	w.count(on.sizes[first:first+n], -1)
	on.units = slices.Delete(on.units, first, first+n)
	on.sizes = slices.Delete(on.sizes, first, first+n)
	on.cpus -= wants.CPUs
	on.memory -= wants.Memory
	w.placed = append(w.placed, shelf)
	w.round++
}

// explain finds why the remaining GPUs are unused.
func (w *turns) explain() {
	var lacking []*group
	for _, g := range w.groups {
		if g != nil && g.least <= g.most {
			lacking = append(lacking, g)
		}
	}
	for i := range w.shelves {
		s := &w.shelves[i]
		size, why := math.NaN(), noDemand
		for n, u := range s.units {
			if s.sizes[n] != size {
				size, why = s.sizes[n], w.reasonOf(lacking, s, s.sizes[n])
			}
			w.units[u].why = why
		}
	}
}

// reasonOf returns why GPUs of a size are unused on a machine: the first of the reasons why jobs did not take them.
func (w *turns) reasonOf(lacking []*group, s *shelf, size float64) reason {
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
func (w *turns) helps(s *shelf, ofMemory bool) (missing float64, jobs int) {
	lacks := func(wants *wish) float64 { // +Inf: something else, too
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
