package samplepool

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Course says how a run's job uses its GPUs.
type Course string

const (
	Steady  Course = "steady" // trains on all its GPUs, with pauses
	Dead    Course = "dead"   // like Steady up to some time, nothing from then on
	Sleeper Course = "sleep"  // never computes: at most 0.004 of its GPUs are busy
	OneGPU  Course = "one"    // computes on one of several GPUs
	Slow    Course = "slow"   // waits for its data all the time: about 0.3 of its GPUs are busy
)

// The share of the snapshots of runs without GPUsAverageUsage: the startd has not measured yet, or could not.
const (
	unreportedFirst = 0.15 // of first snapshots
	unreportedLater = 0.02 // of the others
	reportEvery     = 5 * minute
	shortestIdle    = 30 * minute // of Run.Idle
)

// trace is the activity of a run's GPUs. It is generated as far as needed, always the same way.
type trace struct {
	rnd    *rand.Rand
	course Course
	gpus   float64
	dies   int64 // Dead: since when it computes nothing
	phases []phase
}

// phase is a time in which a constant number of GPUs compute.
type phase struct {
	from, to int64
	rate     float64 // GPUs
	before   float64 // GPU-milliseconds of the phases before it
}

// newTrace chooses a course for a run.
func newTrace(seed uint64, r *run) *trace {
	t := &trace{rnd: rand.New(rand.NewPCG(seed, 0)), gpus: float64(len(r.gpus)), dies: math.MaxInt64}
	switch x := t.rnd.Float64(); {
	case x < 0.10:
		t.course = Sleeper
	case x < 0.27:
		t.course = Dead
		t.dies = r.start + int64(t.rnd.Float64()*float64(r.job.work))
	case x < 0.39:
		t.course = Slow
	case x < 0.60 && len(r.gpus) > 1:
		t.course = OneGPU
	default:
		t.course = Steady
	}
	t.phases = []phase{{from: r.start, to: r.start}}
	return t
}

// until makes phases up to a time.
func (t *trace) until(at int64) {
	for {
		last := t.phases[len(t.phases)-1]
		if last.to > at {
			return
		}
		pause := t.course != Slow && last.rate > 0 && t.rnd.IntN(4) == 0
		next := phase{from: last.to, to: last.to + t.length(pause),
			before: last.before + last.rate*float64(last.to-last.from)}
		if !pause {
			next.rate = t.rate()
		}
		switch {
		case next.from >= t.dies:
			next.rate = 0
		case next.to > t.dies:
			next.to = t.dies
		}
		t.phases = append(t.phases, next)
	}
}

// length draws how long a phase lasts: most pauses are short, one in eight is not.
func (t *trace) length(pause bool) int64 {
	median, spread := 35*minute, 0.7
	if pause {
		median, spread = 4*minute, 0.8
		if t.rnd.IntN(8) == 0 {
			median, spread = 60*minute, 0.6
		}
	}
	return second + int64(float64(median)*math.Exp(spread*t.rnd.NormFloat64()))
}

// rate draws how many GPUs compute.
func (t *trace) rate() float64 {
	x := t.rnd.Float64()
	switch t.course {
	case Sleeper:
		return t.gpus * max(0, 0.008*x-0.004)
	case OneGPU:
		return 0.8 + 0.2*x
	case Slow:
		return t.gpus * (0.15 + 0.3*x)
	}
	return t.gpus * (0.75 + 0.25*x)
}

// busy returns the GPU-milliseconds computed up to a time.
func (t *trace) busy(at int64) float64 {
	t.until(at)
	p := t.phases[sort.Search(len(t.phases), func(i int) bool { return t.phases[i].to > at })]
	return p.before + p.rate*float64(max(0, at-p.from))
}

// idle returns the stretches of at least 30 minutes up to the run's end in which less than 1 % of its GPUs computed.
func (t *trace) idle(end int64) (stretches [][2]time.Time) {
	t.until(end)
	from := int64(-1)
	for _, p := range t.phases {
		if p.rate < 0.01*t.gpus && p.from < end {
			if from < 0 {
				from = p.from
			}
			continue
		}
		if from >= 0 && min(p.from, end)-from >= shortestIdle {
			stretches = append(stretches, [2]time.Time{moment(from), moment(min(p.from, end))})
		}
		from = -1
	}
	if from >= 0 && end-from >= shortestIdle {
		stretches = append(stretches, [2]time.Time{moment(from), moment(end)})
	}
	return stretches
}

// averageUsage is GPUsAverageUsage as the startd reports it now: of the run up to its last report, which can be 300 s
// old; false before the first one.
func (r *run) averageUsage(now int64) (float64, bool) {
	if r.ended {
		now = min(now, r.end) // a row that was left over
	}
	report := now - (now+r.host.reports)%reportEvery
	if report <= r.start {
		return 0, false
	}
	return math.Round(r.trace.busy(report)/float64(report-r.start)*1e9) / 1e9, true
}

// reportUsage fills in GPUsAverageUsage of the rows from one on.
func (c *collector) reportUsage(from int, now int64) {
	for i := from; i < len(c.all); {
		r, first := c.runs[i], i
		for i++; i < len(c.all) && r != nil && c.runs[i] == r; i++ {
		}
		if r == nil {
			continue
		}
		missing := c.usage.Float64()
		if c.reported[r] && missing < unreportedLater || !c.reported[r] && missing < unreportedFirst {
			c.reported[r] = true
			continue
		}
		c.reported[r] = true
		value, known := r.averageUsage(now)
		for k := first; k < i; k++ {
			c.all[k].AverageUsage, c.all[k].UsageReported = value, known
		}
	}
}

// forgetEnded keeps the runs that rows were written of from growing without bounds.
func (c *collector) forgetEnded() {
	for r := range c.reported {
		if r.ended {
			delete(c.reported, r)
		}
	}
}
