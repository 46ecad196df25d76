package demand

import (
	"math"
	"slices"

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
	round   int        // from 1
	answers []answered // by wish
	having  choice     // the machines that have the GPUs of the last request
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
	}
	for _, wait := range waiting {
		w.take(wait, of.of[wait])
	}
	w.explain()
	return w
}

// take is the turn of a job with a wish.
func (w *turns) take(wait, wish int32) {
	found := &w.answers[wish]
	if found.round != w.round {
		var on *shelf
		found.round = w.round
		if found.obstacle, on = w.find(&w.all[wish]); on != nil {
			w.place(&w.all[wish], on)
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

// find returns the obstacle of a wish among the remaining GPUs, and the machine that serves it.
func (w *turns) find(wants *wish) (obstacle, *shelf) {
	if c := &w.having; c.round != w.round || c.n != wants.n() || c.memory != wants.GPUMemory {
		c.round, c.n, c.memory = w.round, wants.n(), wants.GPUMemory
		c.gather(w.shelves)
	}
	found := w.having.obstacle
	var on *shelf
	fewest := 0
	for _, m := range w.having.machines {
		switch {
		case m.cpus < wants.CPUs:
			found = max(found, noCPUs)
		case m.memory < wants.Memory:
			found = max(found, noMemory)
		case on == nil || m.fitting < fewest:
			found, on, fewest = itFits, m.shelf, m.fitting
		}
	}
	return found, on
}

// choice are the machines that have n GPUs with the given memory in a round. Jobs that ask for the same GPUs follow
// each other.
type choice struct {
	n        int
	memory   float64
	round    int
	machines []candidate
	obstacle obstacle // why there is none; noShape also if there are some
}

// candidate is a machine and how many of its GPUs fit.
type candidate struct {
	*shelf
	fitting int
}

// gather finds the machines.
func (c *choice) gather(shelves []shelf) {
	left, large := 0, 0
	c.machines, c.obstacle = c.machines[:0], noShape
	for i := range shelves {
		s := &shelves[i]
		fitting := s.suitable(c.memory)
		left += len(s.sizes)
		large += fitting
		if fitting >= c.n {
			c.machines = append(c.machines, candidate{s, fitting})
		}
	}
	switch {
	case left < c.n:
		c.obstacle = tooFewGPUs
	case large < c.n:
		c.obstacle = tooFewWithMemory
	}
}

// place gives a job the smallest GPUs of a machine that do.
func (w *turns) place(wants *wish, on *shelf) {
	first, n := firstFit(on.sizes, wants.GPUMemory), wants.n()
	for _, u := range on.units[first : first+n] {
		w.units[u].why = aJobFits
		w.took[u] = len(w.order)
	}
	on.units = slices.Delete(on.units, first, first+n)
	on.sizes = slices.Delete(on.sizes, first, first+n)
	on.cpus -= wants.CPUs
	on.memory -= wants.Memory
	w.round++
}

// explain finds why the remaining GPUs are unused.
func (w *turns) explain() {
	for i := range w.shelves {
		s := &w.shelves[i]
		size, why := math.NaN(), noDemand
		for n, u := range s.units {
			if s.sizes[n] != size {
				size, why = s.sizes[n], w.reasonOf(s, s.sizes[n])
			}
			w.units[u].why = why
		}
	}
}

// reasonOf returns why GPUs of a size are unused on a machine: the first of the reasons why jobs did not take them.
func (w *turns) reasonOf(s *shelf, size float64) reason {
	why := noDemand
	for _, n := range w.lacking {
		wants := &w.all[n]
		switch {
		case wants.GPUMemory > max(size, 0):
			why = min(why, lacksMemOfGPU)
		case s.suitable(wants.GPUMemory) < wants.n():
			why = min(why, lacksGPUs)
		case s.cpus < wants.CPUs:
			why = min(why, lacksCPUs)
		default: // the jobs did not fit, and the remaining memory never grows
			why = min(why, lacksMemory)
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
